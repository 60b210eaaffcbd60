"""Rows of pooling within regions."""

from __future__ import annotations

from runtime.operators.row import FIXED, Operator
from runtime.semantics.functions import RegionFunction, function_names
from runtime.semantics.generic import SHAPE_FUNCTIONS

OPERATORS = {
    "RegionPooling": Operator(
        (3, 3),
        SHAPE_FUNCTIONS["RegionPooling"],
        {
            "function": function_names(RegionFunction),
            "bins": "pair",
            "samples": "int",
            **dict.fromkeys(("scale", "shift", "smallest"), "float"),
            "grouped": "bool",
        },
        format=FIXED,
    ),
}
