"""Loads modules of custom operators: files that a user names, modules by name, and entry points of what is installed.

Loading a module executes it. So nothing is loaded but what a deployment file or a command line names, and what the
user has installed with an entry point in the group `farm.operators`.
"""

import functools
import hashlib
import importlib
import sys
import threading
import types
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from runtime.custom.binding import BoundOperator, bind
from runtime.custom.user_code import raised
from runtime.errors import ConfigError
from runtime.host.regular_file import open_regular

GROUP = "farm.operators"
ATTRIBUTE = "OPERATORS"

_executing = threading.Lock()


def load_file(path: Path) -> list[BoundOperator]:
    """The operators of a .py file; ConfigError says where it is wrong."""
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    path = path.resolve()
    with _executing:
        return _bound(_module_of_file(path, content), path, hashlib.sha256(content).hexdigest())


def load_module(name: str) -> list[BoundOperator]:
    """The operators of a module that Python finds by its name."""
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever its code raises
        raise ConfigError(f"module {name} cannot be imported: {raised(error, '')}") from None
    return _bound_module(module)


def load_installed() -> list[BoundOperator]:
    """The operators of all installed packages that offer some."""
    return [operator for point in entry_points(group=GROUP) for operator in _of_entry_point(point)]


def load(name: str, folder: Path) -> list[BoundOperator]:
    """The operators of what a file names: a path that ends in .py, seen from a folder, or a module."""
    return load_file(folder / name) if name.endswith(".py") else load_module(name)


def _of_entry_point(point: EntryPoint) -> list[BoundOperator]:
    try:
        point.load()
    except (Exception, SystemExit) as error:  # whatever its code raises
        raise ConfigError(f"entry point {point.name} of {GROUP} ({point.value}): {raised(error, '')}") from None
    return _bound_module(sys.modules[point.module], point.attr or ATTRIBUTE)


@functools.lru_cache(64)
def _module_of_file(path: Path, content: bytes) -> types.ModuleType:
    """Executes a file, once for each content that it has.

    Python knows it by a name that no other module has, which dataclasses and pickles in it need.
    """
    module = types.ModuleType(f"{path.stem}_{hashlib.sha256(str(path).encode() + content).hexdigest()[:16]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        problem = ConfigError(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}")
    except (Exception, SystemExit) as error:  # whatever its code raises
        problem = ConfigError(f"{path}: its import failed: {raised(error, str(path))}")
    else:
        return module
    del sys.modules[module.__name__]
    raise problem


def _bound_module(module: types.ModuleType, attribute: str = ATTRIBUTE) -> list[BoundOperator]:
    if module.__file__ is None:
        raise ConfigError(f"module {module.__name__} has no file, so it declares no operators")
    path = Path(module.__file__).resolve()
    return _bound(module, path, hashlib.sha256(path.read_bytes()).hexdigest(), attribute)


def _bound(module: types.ModuleType, path: Path, digest: str, attribute: str = ATTRIBUTE) -> list[BoundOperator]:
    declared: Any = getattr(module, attribute, None)
    if not isinstance(declared, Sequence):
        found = "is missing" if declared is None else f"is {type(declared).__name__}"
        raise ConfigError(f"{path}: {attribute} {found}; expected: a list of Operator(...)")
    return [bind(operator, path, digest) for operator in declared]
