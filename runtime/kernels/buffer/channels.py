"""Kernels along the channels of NHWC buffers: pooling, scale and shift, local response normalisation, resize."""

from __future__ import annotations

from runtime.kernels.buffer.convolution import WINDOW
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant

VARIANTS = tuple(variant(VECTOR=vector) for vector in (4, 8, 16))
DEFAULTS = {"": (variant(VECTOR=4),), "pocl": (variant(VECTOR=8),), "pocl-3.1": (variant(VECTOR=16),)}
# ITEMS: how often a work item repeats its work, where one vector is too little to pay for it.
ITEM_VARIANTS = tuple(variant(VECTOR=vector, ITEMS=items) for vector in (4, 8, 16) for items in (1, 4, 16))
ITEM_DEFAULTS = {
    "": (variant(VECTOR=4, ITEMS=1),),
    "pocl": (variant(VECTOR=8, ITEMS=16),),
    "pocl-3.1": (variant(VECTOR=16, ITEMS=16),),
}


def _window_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {
        "x": (dims["batch"] * dims["in_h"] * dims["in_w"], dims["channels"]),
        "y": (dims["batch"] * dims["out_h"] * dims["out_w"], dims["channels"]),
    }


def _nearest_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {**_window_shapes(dims, defines), "rows": (dims["out_h"],), "columns": (dims["out_w"],)}


def _window_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return ceil_div(dims["channels"], chosen["VECTOR"]), dims["out_w"], dims["batch"] * dims["out_h"]


def _pixel_shapes(dims: Dims, defines: Defines) -> Shapes:
    tensor = (dims["pixels"], dims["channels"])
    return {"x": tensor, "s": (dims["channels"],), "t": (dims["channels"],), "y": tensor}


def _pixel_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return ceil_div(dims["channels"], chosen["VECTOR"]), ceil_div(dims["pixels"], chosen.get("ITEMS", 1))


KERNELS = (
    buffer_kernel(
        "pool",
        "Pooling",
        "x:view y:view",
        f"batch in_h in_w channels out_h out_w {WINDOW} count_include_pad",
        _window_shapes,
        _window_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "scale_shift",
        "BatchNorm",
        "x:view s:weights t:weights y:view",
        "pixels channels",
        _pixel_shapes,
        _pixel_work_items,
        floats="act_a act_b",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
    ),
    buffer_kernel(
        "lrn",
        "LRN",
        "x:view y:view",
        "pixels channels size",
        _pixel_shapes,
        _pixel_work_items,
        floats="alpha beta bias",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "resize_nearest",
        "Resize",
        "x:view rows:table columns:table y:view",
        "batch in_h in_w channels out_h out_w",
        _nearest_shapes,
        _window_work_items,
        source="resize.cl",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "resize_bilinear",
        "Resize",
        "x:view y:view",
        "batch in_h in_w channels out_h out_w",
        _window_shapes,
        _window_work_items,
        source="resize.cl",
        floats="scale_h scale_w shift_h shift_w",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
