"""The table of frameworks: what each platform of a deployment file needs, and the program that speaks to it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
from collections.abc import Mapping

from runtime.errors import ConfigError
from runtime.host import extras


@dataclasses.dataclass(frozen=True)
class Framework:
    """A framework and what it takes to work with its models.

    Attributes:
        title: its name for people.
        program: module that converts and runs models, started with `python -m`.
        to_convert, to_run: packages that each of the two needs.
    """

    title: str
    program: str
    to_convert: tuple[str, ...]
    to_run: tuple[str, ...]


_PROGRAMS = "runtime.frameworks.programs"
_TENSORFLOW = Framework("TensorFlow", f"{_PROGRAMS}.tensorflow_program", ("tensorflow", "tf2onnx"), ("tensorflow",))
_LITERT = Framework(
    "LiteRT", f"{_PROGRAMS}.litert_program", ("tensorflow", "tf2onnx", "ai-edge-litert"), ("ai-edge-litert",)
)
_PYTORCH = Framework("PyTorch", f"{_PROGRAMS}.pytorch_program", ("torch", "onnxscript"), ("torch",))

FRAMEWORKS: Mapping[str, Framework] = {
    "tensorflow": _TENSORFLOW,
    "keras": dataclasses.replace(_TENSORFLOW, title="Keras"),
    "tflite": _LITERT,
    "pytorch": _PYTORCH,
}


def require(purpose: str, packages: tuple[str, ...]) -> None:
    """Raises ConfigError with the command that installs the first of the packages that is missing."""
    for package in packages:
        if not is_installed(package):
            raise ConfigError(extras.needed(purpose, package))


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported here."""
    return importlib.util.find_spec(package.replace("-", "_")) is not None


def package_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Version of each package and of ONNX."""
    return {package: _version(package) for package in (*packages, "onnx")}


def _version(package: str) -> str:
    distributions = importlib.metadata.packages_distributions().get(package.replace("-", "_"), [package])
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(distributions)))
