"""What ReduceMean, ReduceSum, ReduceMax and ReduceMin are: their rows, what they compute, and their kernels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.formats import rewriting
from runtime.graph import Array
from runtime.kernels.buffer.nests import strided_span
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import (
    ROW_DEFAULTS,
    ROW_LANES,
    VARIANTS,
    lanes_local_size,
    row_work_items,
    rows_alone,
)
from runtime.kernels.image.pixels import EXTENTS, image_of
from runtime.kernels.image.spec import (
    SHARING,
    SHARING_DEFAULTS,
    Images,
    activation_image,
    blocks_of,
    image_kernel,
    sharing_cost,
    sharing_local_size,
)
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems
from runtime.operators.row import AttributeKind, Operator, transposable
from runtime.oracle.shared import Compute, first_input
from runtime.semantics.quantization import QuantizationRule, moved, not_carried
from runtime.semantics.shape_functions import Attributes, Shape


def _shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of the input without, or with one element along, the axes that are reduced."""
    axes, keep = attributes["axes"], attributes["keepdims"]
    if any(not 0 <= axis < len(shapes[0]) for axis in axes):
        raise ModelError(f"axes {axes} are not all axes of an input of shape {shapes[0]}")
    return tuple(1 if axis in axes else size for axis, size in enumerate(shapes[0]) if keep or axis not in axes)


MOST_SHARED_ROWS = 64  # beyond, work items enough to fill a mobile GPU
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")


def _row(rule: QuantizationRule) -> Operator:
    attributes: Mapping[str, AttributeKind] = {"axes": "ints", "keepdims": "bool"}
    return Operator((1, 1), _shape, attributes, format=transposable(rewriting.reduced), quantization=rule)


OPERATORS = {op: _row(moved if op in ("ReduceMax", "ReduceMin") else not_carried) for op in REDUCTIONS}


def _reduce(function: Callable[..., Any]) -> Compute:
    def reduce(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        return np.asarray(function(first_input(arguments), axis=attributes["axes"], keepdims=attributes["keepdims"]))

    return reduce


COMPUTE: Mapping[str, Compute] = {
    "ReduceMean": _reduce(np.mean),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
}


def _reduce_shapes(dims: Dims, defines: Defines) -> Shapes:
    loops = [dims["outer"], dims["reduced"], dims["inner"]]
    strides = [dims["x_outer_stride"], dims["x_reduced_stride"], dims["x_inner_stride"]]
    y = strided_span([dims["outer"], dims["inner"]], [dims["y_outer_stride"], dims["y_inner_stride"]])
    return {"x": strided_span(loops, strides), "y": y}


BUFFER_KERNELS = (
    buffer_kernel(
        "reduce",
        "Reduce",
        "x:flat y:flat",
        "outer reduced inner "
        "x_outer_stride:any x_reduced_stride:any x_inner_stride:any y_outer_stride:any y_inner_stride:any",
        _reduce_shapes,
        row_work_items,
        variants=(*VARIANTS, *ROW_LANES),
        defaults=ROW_DEFAULTS,
        rule=rows_alone("x_reduced_stride"),
        local=lanes_local_size,
        # Of many rows each has a work item of its own.
        cost=lambda dims, chosen: float(bool(chosen.get("LANES")) and dims["outer"] > MOST_SHARED_ROWS),
    ),
)


def _reduce_images(dims: Dims, defines: Defines) -> Images:
    return {"x": image_of(dims), "y": activation_image(dims["batch"], dims["channels"], 1, 1)}


def _image_items(dims: Dims, chosen: Variant) -> WorkItems:
    return chosen["LANES"], blocks_of(dims["channels"]), dims["batch"]


IMAGE_KERNELS = (
    image_kernel(
        "reduce",
        "Pooling",
        "x y",
        EXTENTS,
        _reduce_images,
        _image_items,
        variants=SHARING,
        defaults=SHARING_DEFAULTS,
        cost=sharing_cost(_image_items),
        local=sharing_local_size,
        tunable=True,
    ),
)
