"""The store of all runs and rows; it is imported with the class, not with what needs no database."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farm.store.store import Store

__all__ = ["Store"]


def __getattr__(name: str) -> Any:
    if name == "Store":
        return importlib.import_module("farm.store.store").Store
    raise AttributeError(f"module 'farm.store' has no attribute {name!r}")
