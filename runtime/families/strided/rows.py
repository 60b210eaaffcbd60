"""Rows of the generic operators on strided views (runtime/semantics/generic.py says what they compute)."""

import math
from collections.abc import Mapping, Sequence

from runtime.formats import rewriting
from runtime.operators.row import DTYPES, SOURCE, AttributeKind, Operator, transposable
from runtime.semantics import quantization
from runtime.semantics.functions import (
    CumulationFunction,
    ElementFunction,
    ReductionFunction,
    UpdateFunction,
    function_names,
)
from runtime.semantics.generic import SHAPE_FUNCTIONS
from runtime.semantics.shape_functions import Shape

_INDEXED: Mapping[str, AttributeKind] = {
    **dict.fromkeys(("shape", "strides", "index_strides", "limits", "limit_strides"), "ints"),
    "component_stride": "int",
}


def _product_macs(shapes: Sequence[Shape], output: Shape) -> int:
    """An estimate for a product of matrices: the loops are not known from the shapes alone."""
    return math.prod(output) * (shapes[0][-1] if shapes[0] else 1)


OPERATORS = {
    "Elementwise": Operator(
        (1, 3),
        SHAPE_FUNCTIONS["Elementwise"],
        {"function": function_names(ElementFunction), "dtype": DTYPES, "alpha": "float", "beta": "float"},
        format=transposable(rewriting.broadcasting),
    ),
    "Strided": Operator(
        (1, 1),
        SHAPE_FUNCTIONS["Strided"],
        {"shape": "ints", "strides": "ints", "offset": "int"},
        format=transposable(rewriting.strided),
        quantization=quantization.moved,
    ),
    "Embedding": Operator(
        (1, 1),
        SHAPE_FUNCTIONS["Embedding"],
        {"shape": "ints", "starts": "ints", "steps": "ints", "value": "float"},
        format=transposable(rewriting.embedded),
    ),
    "Join": Operator(
        (1, None),
        SHAPE_FUNCTIONS["Join"],
        {"axis": "int"},
        format=transposable(rewriting.on_axis),
        quantization=quantization.joined,
    ),
    "StridedReduction": Operator(
        (1, 1),
        SHAPE_FUNCTIONS["StridedReduction"],
        {
            "function": function_names(ReductionFunction),
            "dtype": DTYPES,
            **dict.fromkeys(("shape", "window", "strides"), "ints"),
            "offset": "int",
        },
        format=transposable(rewriting.strided_reduction),
    ),
    "StridedProduct": Operator(
        (2, 2),
        SHAPE_FUNCTIONS["StridedProduct"],
        dict.fromkeys(("shape", "summed", "a_strides", "b_strides"), "ints"),
        macs=_product_macs,
        format=SOURCE,
    ),
    "Cumulation": Operator(
        (1, 1),
        SHAPE_FUNCTIONS["Cumulation"],
        {"function": function_names(CumulationFunction), "axis": "int", "exclusive": "bool", "reverse": "bool"},
        format=transposable(rewriting.on_axis),
    ),
    "IndexedRead": Operator(
        (2, 2),
        SHAPE_FUNCTIONS["IndexedRead"],
        _INDEXED,
        format=transposable(rewriting.gathered),
        quantization=quantization.moved,
    ),
    "IndexedWrite": Operator(
        (3, 3),
        SHAPE_FUNCTIONS["IndexedWrite"],
        {**_INDEXED, "function": function_names(UpdateFunction)},
        format=SOURCE,
    ),
}
