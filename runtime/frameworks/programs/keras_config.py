"""Finds what would run code in the description of a Keras model, before Keras reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtime.errors import ModelError
from runtime.frameworks.programs.description import objects
from runtime.frameworks.request import FrameworkRequest

# Where Keras keeps what its files name; anything else would be imported and called.
OWN_MODULES = ("keras", "tf_keras", "tensorflow.python.keras", "tensorflow.keras")
CODE_LAYERS = ("Lambda", "__lambda__", "TFSMLayer", "TorchModuleWrapper")


def check_code(config: Any, request: FrameworkRequest) -> None:
    """Refuses what would run code while it is read: Lambda layers, and classes and functions of other packages."""
    for found in _code(config):
        raise ModelError(
            f"{request.model}: holds {found}, which is code; --trust-model accepts that of an author whom you trust"
        )


def _code(config: Any) -> Iterator[str]:
    """Descriptions of the code in a configuration, wherever it stands."""
    for part in objects(config):
        yield from _code_of(part)


def _code_of(part: dict[str, Any]) -> Iterator[str]:
    kind, module = part.get("class_name"), part.get("module")
    if kind in CODE_LAYERS:
        name = part.get("config", {}).get("name", "") if isinstance(part.get("config"), dict) else ""
        yield f"a layer {kind} {name!r}"
    elif kind is not None and (part.get("registered_name") or "").partition(">")[2] and not _is_own(module):
        yield f"the class {kind!r} of the user's own"
    elif module is not None and not _is_own(module):
        yield f"{kind!r} of the module {module!r}"


def _is_own(module: Any) -> bool:
    """Whether a module's name is Keras's, or `builtins`, which Keras itself guards."""
    return module in (None, "builtins") or (
        isinstance(module, str) and any(module == own or module.startswith(f"{own}.") for own in OWN_MODULES)
    )
