"""Packages that only some need: each comes with an extra of farm, which the error names where it is missing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType

from runtime.errors import ConfigError

# Package -> the extra of pyproject.toml that brings it.
EXTRAS: Mapping[str, str] = {
    "ai-edge-litert": "tensorflow",
    "onnxscript": "pytorch",
    "psycopg": "postgresql",
    "pyarrow": "parquet",
    "tensorflow": "tensorflow",
    "tf2onnx": "tensorflow",
    "torch": "pytorch",
    "ziglang": "compiler",
}


def install_command(package: str) -> str:
    """The command that installs a package with its extra."""
    return f"pip install 'farm[{EXTRAS[package]}]'"


def needed(purpose: str, package: str) -> str:
    """The line that says what is missing, what for, and what to do."""
    return f"{purpose} needs {package}, which is not installed: {install_command(package)}"


def load(purpose: str, module: str) -> ModuleType:
    """Imports a module of such a package; raises ConfigError where the package is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(needed(purpose, module.partition(".")[0])) from None
