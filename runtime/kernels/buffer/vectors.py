"""Kernels along the channels of NHWC buffers: what the rows of several families share."""

from __future__ import annotations

from runtime.kernels.buffer.spec import Shapes
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


def image_shapes(dims: Dims, defines: Defines) -> Shapes:
    """Input and output images of a window."""
    return {
        "x": (dims["batch"] * dims["in_h"] * dims["in_w"], dims["channels"]),
        "y": (dims["batch"] * dims["out_h"] * dims["out_w"], dims["channels"]),
    }


def window_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    """A vector of channels of an output pixel."""
    return ceil_div(dims["channels"], chosen["VECTOR"]), dims["out_w"], dims["batch"] * dims["out_h"]


def pixel_shapes(dims: Dims, defines: Defines) -> Shapes:
    """Pixels, and scale and shift of each channel."""
    tensor = (dims["pixels"], dims["channels"])
    return {"x": tensor, "s": (dims["channels"],), "t": (dims["channels"],), "y": tensor}


def pixel_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    """A vector of channels of ITEMS pixels."""
    return ceil_div(dims["channels"], chosen["VECTOR"]), ceil_div(dims["pixels"], chosen.get("ITEMS", 1))
