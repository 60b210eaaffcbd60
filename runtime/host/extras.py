"""Imports optional packages; where one is missing, the error names the extra of farm that installs it."""

import importlib
from collections.abc import Mapping
from types import ModuleType

from runtime.errors import ConfigError

# Package -> the extra of pyproject.toml that brings it.
EXTRAS: Mapping[str, str] = {
    "ai-edge-litert": "tensorflow",
    "distributed": "cluster",
    "labgrid": "labgrid",
    "onnxscript": "pytorch",
    "prometheus_client": "serve",
    "psycopg": "postgresql",
    "pyarrow": "parquet",
    "s3fs": "s3",
    "starlette": "serve",
    "tensorflow": "tensorflow",
    "tf2onnx": "tensorflow",
    "torch": "pytorch",
    "uvicorn": "serve",
    "ziglang": "compiler",
}


def install_command(package: str) -> str:
    """The command that installs a package with its extra."""
    return f"pip install 'farm[{EXTRAS[package]}]'"


def needed(purpose: str, package: str) -> str:
    """Returns the line that says which package is missing, what needs it, and how to install it."""
    return f"{purpose} needs {package}, which is not installed: {install_command(package)}"


def load(purpose: str, module: str) -> ModuleType:
    """Imports a module of an optional package; raises ConfigError where the package is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(needed(purpose, module.partition(".")[0])) from None
