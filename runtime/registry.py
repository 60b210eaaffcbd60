"""Collects what the rooms of `runtime/families` offer, so that no table lists a family by hand.

A room is a folder. Its files are named for what they say of its operators, and the last words of a name are the file's
*kind*: `rows.py`, `imports.py` and `einsum_imports.py`, `oracle.py`, `buffer_lowering.py`, ... Where each would be a
few lines, `definition.py` has what operators are (rows, oracle, kernels) and `translation.py` what becomes of them
(imports, lowerings, sizes to measure). A registry is one table of all files that may have it; it is read when it is
first asked for, so that machinery knows the tables and never a family.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

ROOMS = "runtime.families"
DEFINITION, TRANSLATION = "definition", "translation"
# Each table with the kinds of files that may have it.
TABLES = {
    **{
        table: (kind, DEFINITION)
        for kind, tables in {
            "rows": ("OPERATORS",),
            "oracle": ("COMPUTE", "COMPUTE_GENERIC", "ACTIVATIONS"),
            "buffer_kernels": ("BUFFER_KERNELS",),
            "image_kernels": ("IMAGE_KERNELS",),
            "block_kernels": ("BLOCK_KERNELS",),
            "strided_kernels": ("STRIDED_KERNELS",),
        }.items()
        for table in tables
    },
    "HANDLERS": ("imports", TRANSLATION),
    "WRITERS": ("imports", TRANSLATION),
    "EXPANSIONS": ("expansions", TRANSLATION),
    "STAND_INS": ("stand_ins", TRANSLATION),
    "ONNX_FUNCTIONS": ("onnx_functions", TRANSLATION),
    "FARM_HANDLERS": ("farm_domain", TRANSLATION),
    "BUFFER_LOWERINGS": ("buffer_lowering", TRANSLATION),
    "ROW_JOINS": ("buffer_lowering",),
    "BYTE_OPERATORS": ("buffer_lowering", "quantized_lowering", TRANSLATION),
    "IMAGE_LOWERINGS": ("image_lowering", TRANSLATION),
    "BLOCKED_OPERATORS": ("block_lowering", TRANSLATION),
    "QUANTIZED_OPERATORS": ("quantized_lowering", TRANSLATION),
    "BYTE_FUSIONS": ("quantized_lowering", TRANSLATION),
    "STRIDED_LOWERINGS": ("strided_lowering", TRANSLATION),
    "OPBENCH_CASES": ("opbench_cases", TRANSLATION),
}


@functools.cache
def files(kind: str) -> tuple[ModuleType, ...]:
    """The modules of a kind in all rooms, by room and name."""
    found = (name for name in _names() if name.rpartition(".")[2] == kind or name.endswith(f"_{kind}"))
    return tuple(map(importlib.import_module, found))


@functools.cache
def _names() -> tuple[str, ...]:
    """Every file of all rooms."""
    rooms = (room.name for room in pkgutil.iter_modules(importlib.import_module(ROOMS).__path__, f"{ROOMS}."))
    return tuple(
        file.name for room in rooms for file in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}.")
    )


def collect(table: str) -> dict[str, Any]:
    """The union of a table of all files that have it. Raises ValueError where two of them have one key."""
    united: dict[str, Any] = {}
    for name, own in _found(table):
        if twice := united.keys() & own.keys():
            raise ValueError(f"{name}: {table} has {', '.join(sorted(twice))}, which another room has, too")
        united |= own
    return united


def collect_rows(table: str) -> tuple[Any, ...]:
    """The rows of a table of all files that have it."""
    return tuple(row for _, own in _found(table) for row in own)


def _found(table: str) -> Iterator[tuple[str, Any]]:
    """Each file's name with its table."""
    for kind in TABLES[table]:
        for file in files(kind):
            if hasattr(file, table):
                yield file.__name__, getattr(file, table)
