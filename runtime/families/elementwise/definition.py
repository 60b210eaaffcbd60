"""Functions of each element: rows, what NumPy computes, and kernels on buffers of any strides and on images."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runtime.formats import rewriting
from runtime.graph import Array
from runtime.kernels.buffer.nests import nest_ints, nest_shapes, nest_work_items
from runtime.kernels.buffer.spec import buffer_kernel
from runtime.kernels.buffer.vectors import ITEM_DEFAULTS, ITEM_VARIANTS
from runtime.kernels.image.pixels import AXES, pixel_items, same_images
from runtime.kernels.image.spec import Images, activation_image, image_kernel
from runtime.kernels.spec import Defines, Dims
from runtime.operators.row import AttributeKind, Operator, transposable
from runtime.oracle.shared import Compute, first_input
from runtime.semantics import quantization, unary
from runtime.semantics.shape_functions import Attributes, broadcast, broadcast_to_first, same
from runtime.semantics.unary import Unary

FACTORS = " ".join(
    f"{name}_multiplier:any {name}_shift:any" for name in "aby"
)  # ints: of both operands, and of results
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
UNARY = {"Relu": (), "Identity": (), **{code.function.operator: code.function.parameter_names for code in Unary}}


def _unary_row(op: str, parameters: tuple[str, ...]) -> Operator:
    rule = quantization.kept if op == "Identity" else quantization.not_carried
    attributes: dict[str, AttributeKind] = dict.fromkeys(parameters, "float")
    return Operator((1, 1), same, attributes, format=transposable(rewriting.broadcasting), quantization=rule)


OPERATORS = {
    **{op: Operator((2, 2), broadcast, fusible=True, format=transposable(rewriting.broadcasting)) for op in BINARY},
    **{op: _unary_row(op, parameters) for op, parameters in UNARY.items()},
    "PRelu": Operator((2, 2), broadcast_to_first, format=transposable(rewriting.broadcasting)),
}


ACTIVATIONS: Mapping[str, Callable[[Array, Attributes], Array]] = {
    "none": lambda x, _: x,
    "relu": lambda x, _: np.maximum(x, 0),
    **{code.function.activation: code.function.computed for code in unary.ACTIVATIONS},
}
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(np.true_divide(a, b)) if a.dtype.kind in "iu" else np.divide(a, b),
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
    "Identity": np.array,
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
}


def _elementwise(function: Callable[..., Any]) -> Compute:
    return lambda arguments, attributes: function(*arguments)


def _unary(function: Callable[[Array, Attributes], Array]) -> Compute:
    return lambda arguments, attributes: function(first_input(arguments), attributes)


COMPUTE: Mapping[str, Compute] = {
    **{op: _elementwise(function) for op, function in _ARITHMETIC.items()},
    **{code.function.operator: _unary(code.function.computed) for code in unary.Unary},
    "Relu": _unary(ACTIVATIONS["relu"]),
}


BUFFER_KERNELS = (
    buffer_kernel(
        "unary",
        "Activation",
        "x:flat y:flat",
        nest_ints(4, "xs ys"),
        functools.partial(nest_shapes, rank=4, tensors="x y"),
        nest_work_items,
        floats="alpha beta",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
    ),
    buffer_kernel(
        "binary",
        "Eltwise",
        "a:flat b:flat y:flat",
        nest_ints(4, "as bs ys"),
        functools.partial(nest_shapes, rank=4, tensors="a b y"),
        nest_work_items,
        floats="act_a act_b",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
    ),
    buffer_kernel(
        "lookup",
        "Activation",
        "x:flat table:weights y:flat",
        nest_ints(4, "xs ys"),
        lambda dims, defines: {**nest_shapes(dims, defines, 4, "x y"), "table": (256,)},
        nest_work_items,
        source="unary",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
        cpu=False,
    ),
    buffer_kernel(
        "binary_bytes",
        "Eltwise",
        "a:flat b:flat y:flat",
        f"{nest_ints(4, 'as bs ys')} {FACTORS}",
        functools.partial(nest_shapes, rank=4, tensors="a b y"),
        nest_work_items,
        source="binary",
        floats="a_scale a_zero b_scale b_zero act_a act_b",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
        cpu=False,
    ),
)


def _binary_images(dims: Dims, defines: Defines) -> Images:
    prefixes = {"a": "a_", "b": "b_", "y": ""}
    return {name: activation_image(*(dims[prefix + axis] for axis in AXES)) for name, prefix in prefixes.items()}


IMAGE_KERNELS = (
    image_kernel(
        "binary",
        "Eltwise",
        "a b y",
        "batch channels height width a_batch a_channels a_height a_width b_batch b_channels b_height b_width",
        _binary_images,
        pixel_items,
        floats="act_a act_b",
    ),
    image_kernel(
        "unary",
        "Activation",
        "x y",
        "batch channels height width",
        same_images,
        pixel_items,
        floats="alpha beta",
    ),
)
