"""Collects what the rooms of `runtime/families` offer, so that no table lists a family by hand.

A room is a folder. Its files are named for what they say of its operators, and the last words of a name are the file's
*kind*: `rows.py`, `imports.py` and `einsum_imports.py`, `oracle.py`, `buffer_lowering.py`, ... A registry is one table
of all files of a kind; it is read when it is first asked for, so that machinery knows the kinds and never a family.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

ROOMS = "runtime.families"


@functools.cache
def files(kind: str) -> tuple[ModuleType, ...]:
    """The modules of a kind in all rooms, by room and name."""
    found = []
    for room in pkgutil.iter_modules(importlib.import_module(ROOMS).__path__, f"{ROOMS}."):
        for file in pkgutil.iter_modules(importlib.import_module(room.name).__path__):
            if file.name == kind or file.name.endswith(f"_{kind}"):
                found.append(importlib.import_module(f"{room.name}.{file.name}"))
    return tuple(found)


def collect(kind: str, table: str) -> dict[str, Any]:
    """The union of a table of all files of a kind that have it. Raises ValueError where two of them have one key."""
    united: dict[str, Any] = {}
    for file in files(kind):
        own = getattr(file, table, {})
        if twice := united.keys() & own.keys():
            raise ValueError(f"{file.__name__}: {table} has {', '.join(sorted(twice))}, which another room has, too")
        united |= own
    return united


def collect_rows(kind: str, table: str) -> tuple[Any, ...]:
    """The rows of a table of all files of a kind that have it."""
    return tuple(row for file in files(kind) for row in getattr(file, table, ()))
