"""A row of the operator table: what holds for every node of one operator.

Every attribute of a row is present in every node of that operator; the only optional ones are the activation
attributes of a `fusible` operator (activations.py). A kind says what an attribute may be: `count` is an int of
at least 1, `pair` two counts, `sides` four ints that are not negative, a tuple of strings lists the values of a str.
Attributes:

    strides, dilations, kernel      (vertical, horizontal)
    pads of Conv and the pools      (top, left, bottom, right), >= 0; SAME, VALID and ceil_mode are resolved into them
    pads of ConvTranspose           (top, left, bottom, right) cut off the full result; a negative one adds zeros
    output_padding                  (bottom, right) added to the result: outputs that no pad has cut off
    gate, cell, out                 functions of a recurrent operator, and (alpha, beta) of each; clip of 0.0: none
    pads of Pad                     all begins, then all ends, one for each axis
    starts, ends, axes, steps       the indices range(start, end, step) are taken of each axis; clamped to the axis;
                                    axes ascending; with a negative step, end is -1 where index 0 is included
    axis, axes, perm                not negative; `axes` ascending
    sizes, scales of Resize         output (height, width); output/input scale of both as the model gave it
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from runtime.formats.category import FIXED, SOURCE, OperatorFormat, transposable
from runtime.semantics.quantization import QuantizationRule, not_carried
from runtime.semantics.shape_functions import Shape, ShapeFunction
from runtime.types import ELEMENT_TYPES

__all__ = [
    "DTYPES",
    "FIXED",
    "SOURCE",
    "AttributeKind",
    "CustomOperator",
    "MacsFunction",
    "Operator",
    "fits_kind",
    "transposable",
]

AttributeKind = Literal["int", "count", "float", "bool", "ints", "pair", "sides", "floats"] | tuple[str, ...]
MacsFunction = Callable[[Sequence[Shape], Shape], int]


def _is_ints(value: Any, least: int | None = None, length: int | None = None) -> bool:
    return (
        type(value) is tuple
        and all(type(item) is int and (least is None or item >= least) for item in value)
        and length in (None, len(value))
    )


_FITS: Mapping[AttributeKind, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "count": lambda value: type(value) is int and value >= 1,
    "float": lambda value: type(value) is float,
    "bool": lambda value: type(value) is bool,
    "ints": _is_ints,
    "pair": lambda value: _is_ints(value, 1, 2),
    "sides": lambda value: _is_ints(value, 0, 4),
    "floats": lambda value: type(value) is tuple and all(type(item) is float for item in value),
}


def fits_kind(kind: AttributeKind, value: Any) -> bool:
    """Whether a value may stand in an attribute of a kind."""
    return value in kind if isinstance(kind, tuple) else _FITS[kind](value)


def _no_macs(shapes: Sequence[Shape], output: Shape) -> int:
    """Multiply-accumulates of an operator that does none."""
    return 0


@dataclasses.dataclass(frozen=True)
class CustomOperator:
    """What the row of a user's operator has beyond those of ours (runtime/custom makes it).

    Attributes:
        domain, name: the operator in ONNX files.
        defaults: values of attributes that a node may leave out.
        input_types, output_type: element types; "" for the output is the first input's.
        input_ranges: where noise for an input lies when the operator is tried alone.
        data_format: `fixed`, `transposable` or `source`: what its axes mean (see farm.operators).
    """

    domain: str
    name: str
    defaults: Mapping[str, Any]
    input_types: tuple[str, ...]
    output_type: str
    input_ranges: tuple[tuple[float, float], ...]
    data_format: str


@dataclasses.dataclass(frozen=True)
class Operator:
    """What holds for every node of one operator.

    `inputs`: least and most inputs (None: no limit). `fusible`: takes activation attributes. `macs`: input shapes and
    output shape -> multiply-accumulates. `format`: what it has to do with the order of axes. `quantization`: what is
    left of its inputs' where it only moves elements. `custom`: what a user's operator has beyond that.
    """

    inputs: tuple[int, int | None]
    shape: ShapeFunction
    attributes: Mapping[str, AttributeKind] = dataclasses.field(default_factory=dict)
    fusible: bool = False
    macs: MacsFunction = _no_macs
    format: OperatorFormat = SOURCE
    quantization: QuantizationRule = not_carried
    custom: CustomOperator | None = None


DTYPES = tuple(ELEMENT_TYPES)
