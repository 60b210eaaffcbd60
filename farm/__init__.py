"""A farm of phones, boards and this machine: converts neural networks, runs, validates, profiles and tunes them.

`import farm` gives the functions of farm.api, which is imported when the first of them is used; docs/python.md shows
them. Some are named as a folder or file here (`farm.units()`, and farm/units): that module is then callable, so that it
does not matter which was imported first.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from farm.api import *

__all__ = [
    "BenchmarkRow",
    "Built",
    "CompareRow",
    "ConvertRow",
    "EnginesRow",
    "FarmError",
    "FleetOptions",
    "ForecastRow",
    "InspectRow",
    "Night",
    "OpbenchRow",
    "QuantizeRow",
    "ReportFiles",
    "RunRow",
    "Status",
    "TuneRow",
    "Unit",
    "benchmark",
    "build",
    "compare",
    "convert",
    "engines",
    "forecast",
    "inspect",
    "nightly",
    "opbench",
    "quantize",
    "report",
    "run",
    "tune",
    "units",
]

_NAMED_AS_MODULES = ("engines", "nightly", "report", "units")


class _CallableModule(ModuleType):
    """A module whose name is also that of a function."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _of_api(self.__name__.removeprefix("farm."))(*arguments, **named)


class _Package(ModuleType):
    """This package; the import system sets each module as an attribute of it."""

    def __getattr__(self, name: str) -> Any:
        if name in _NAMED_AS_MODULES:
            return importlib.import_module(f"farm.{name}")
        if name in __all__:
            return _of_api(name)
        raise AttributeError(f"module 'farm' has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _NAMED_AS_MODULES and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


def _of_api(name: str) -> Any:
    return getattr(importlib.import_module("farm.api"), name)


sys.modules[__name__].__class__ = _Package
