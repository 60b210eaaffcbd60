"""Rows of pooling within regions."""

from __future__ import annotations

from runtime.functions import RegionFunction, function_names
from runtime.generic import SHAPE_FUNCTIONS
from runtime.operator_row import FIXED, Operator

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
