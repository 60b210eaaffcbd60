"""What Resize is: its row, what it computes, and its kernels."""

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.families.resize.nearest import nearest_indices
from runtime.graph import Array
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS, image_shapes, window_work_items
from runtime.kernels.image.pixels import sampled_grid, sampled_images
from runtime.kernels.image.spec import image_kernel
from runtime.kernels.spec import Defines, Dims
from runtime.operators.row import FIXED, AttributeKind, Operator
from runtime.oracle.shared import Compute, first_input
from runtime.semantics.quantization import Known, Quantization, moved
from runtime.semantics.shape_functions import Attributes, Shape, require_rank


def _shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, channels, *sizes) of images."""
    require_rank(shapes[0], 4, "the input")
    if len(attributes["scales"]) != 2 or min(attributes["scales"]) <= 0:
        raise ModelError(f"scales are {attributes['scales']}; two positive numbers are needed")
    return (*shapes[0][:2], *attributes["sizes"])


RESIZE_MODES = ("nearest", "linear")
RESIZE_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
RESIZE_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_RESIZE: Mapping[str, AttributeKind] = {
    "mode": RESIZE_MODES,
    "coordinate_transformation_mode": RESIZE_COORDINATES,
    "nearest_mode": RESIZE_ROUNDING,
    "sizes": "pair",
    "scales": "floats",
}


def _known(known: Known, shapes: Sequence[Shape], attributes: Attributes) -> Quantization | None:
    """What moves elements keeps what they stand for."""
    return moved(known, shapes, attributes) if attributes["mode"] == "nearest" else None


OPERATORS = {"Resize": Operator((1, 1), _shape, _RESIZE, format=FIXED, quantization=_known)}


def _resize(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Resizes height, then width: both modes are separable."""
    out = first_input(arguments)
    for axis, size, scale in zip((2, 3), attributes["sizes"], attributes["scales"], strict=True):
        extent, coordinates = out.shape[axis], attributes["coordinate_transformation_mode"]
        if attributes["mode"] == "nearest":
            chosen = nearest_indices(extent, size, scale, coordinates, attributes["nearest_mode"])
            out = np.take(out, chosen, axis=axis)
        else:
            out = _interpolate(out, source_coordinates(extent, size, scale, coordinates), axis)
    return out


def source_coordinates(extent: int, size: int, scale: float, mode: str) -> Array:
    """Where each of the `size` output positions lies in an input of `extent` positions, as ONNX Resize defines it."""
    position = np.arange(size, dtype=np.float64)
    if mode == "asymmetric":
        return position / scale
    if mode == "align_corners":
        return position * (extent - 1) / (size - 1) if size > 1 else np.zeros(1)
    if mode == "pytorch_half_pixel" and size == 1:
        return np.zeros(1)
    return (position + 0.5) / scale - 0.5


def _interpolate(x: Array, source: Array, axis: int) -> Array:
    inside = np.clip(source, 0, x.shape[axis] - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    weight = (inside - low).reshape([-1 if other == axis else 1 for other in range(x.ndim)]).astype(x.dtype)
    return np.asarray(np.take(x, low, axis=axis) * (1 - weight) + np.take(x, high, axis=axis) * weight)


COMPUTE: Mapping[str, Compute] = {"Resize": _resize}


def _nearest_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {**image_shapes(dims, defines), "rows": (dims["out_h"],), "columns": (dims["out_w"],)}


BUFFER_KERNELS = (
    buffer_kernel(
        "resize_nearest",
        "Resize",
        "x:view rows:table columns:table y:view",
        "batch in_h in_w channels out_h out_w",
        _nearest_shapes,
        window_work_items,
        source="resize",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "resize_bilinear",
        "Resize",
        "x:view y:view",
        "batch in_h in_w channels out_h out_w",
        image_shapes,
        window_work_items,
        source="resize",
        floats="scale_h scale_w shift_h shift_w",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
IMAGE_KERNELS = (
    image_kernel(
        "resize_nearest",
        "Resize",
        "x rows:table columns:table y",
        "batch in_h in_w channels out_h out_w",
        sampled_images,
        sampled_grid,
        source="resize",
    ),
    image_kernel(
        "resize_bilinear",
        "Resize",
        "x y",
        "batch in_h in_w channels out_h out_w",
        sampled_images,
        sampled_grid,
        source="resize",
        floats="scale_h scale_w shift_h shift_w",
    ),
)
