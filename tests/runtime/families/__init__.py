"""What tests draw cases of kernels from: a file for each family of operators, and `machinery.py` for kernels of none.

CASES         name -> Case, each a launch of a buffer kernel where it can go wrong: odd sizes, edges, strides, groups
ORACLES       buffer kernel -> what it computes, in NumPy: dense float64 arrays in, the dense output out
IMAGE_CASES   image kernel -> dims, floats, defines
IMAGE_SHAPES  image kernel -> shapes of tensors that its row does not tell
"""

import importlib
import pkgutil
from typing import Any

FILES = {each.name: importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)}


def _collect(table: str) -> dict[str, Any]:
    """The union of a table of all files that have it; no two have one key."""
    rows = [row for file in FILES.values() for row in getattr(file, table, {}).items()]
    assert len(dict(rows)) == len(rows), f"two families have one key in {table}"
    return dict(rows)


CASES = _collect("CASES")
ORACLES = _collect("ORACLES")
IMAGE_CASES = _collect("IMAGE_CASES")
IMAGE_SHAPES = _collect("IMAGE_SHAPES")
