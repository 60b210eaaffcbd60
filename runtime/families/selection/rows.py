"""Rows of sorting, and of what is kept of overlapping boxes."""

from __future__ import annotations

from runtime.formats import rewriting
from runtime.operators.row import DTYPES, SOURCE, Operator, transposable
from runtime.semantics.generic import SHAPE_FUNCTIONS

OPERATORS = {
    "Sorting": Operator(
        (1, 1),
        SHAPE_FUNCTIONS["Sorting"],
        {"axis": "int", "count": "count", "largest": "bool", "positions": "bool"},
        format=transposable(rewriting.on_axis),
    ),
    "Suppression": Operator(
        (4, 4),
        SHAPE_FUNCTIONS["Suppression"],
        {"count": "count", "centred": "bool", "dtype": DTYPES},
        format=SOURCE,
    ),
}
