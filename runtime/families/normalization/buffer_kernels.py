"""Kernels of normalisation, softmax, scale and shift on buffers."""

from __future__ import annotations

from runtime.kernels.buffer.nests import strided_span
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import (
    DEFAULTS,
    ITEM_DEFAULTS,
    ITEM_VARIANTS,
    ROW_DEFAULTS,
    ROW_LANES,
    VARIANTS,
    lanes_local_size,
    pixel_shapes,
    pixel_work_items,
    row_work_items,
    rows_alone,
    shared_variants,
)
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, variant

_STRIDES = "x_batch_stride x_channel_stride x_pixel_stride y_batch_stride y_channel_stride y_pixel_stride"


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    axes = ("batch", "channel", "pixel")
    extents = (dims["batch"], dims["groups"] * dims["channels"], dims["pixels"])
    spans = {
        tensor: sum((size - 1) * dims[f"{tensor}_{axis}_stride"] for size, axis in zip(extents, axes, strict=True)) + 1
        for tensor in "xy"
    }
    return {"x": (spans["x"],), "s": (extents[1],), "t": (extents[1],), "y": (spans["y"],)}


def _work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return chosen["LANES"], dims["batch"], dims["groups"]


def _softmax_shapes(dims: Dims, defines: Defines) -> Shapes:
    loops = [dims["outer"], dims["length"], dims["inner"]]
    strides = {t: [dims[f"{t}_outer_stride"], dims[f"{t}_stride"], dims[f"{t}_inner_stride"]] for t in "xy"}
    return {tensor: strided_span(loops, steps) for tensor, steps in strides.items()}


BUFFER_KERNELS = (
    buffer_kernel(
        "normalization",
        "Normalization",
        "x:flat s:weights t:weights y:flat",
        f"batch groups channels pixels {_STRIDES} centered:0-1",
        _shapes,
        _work_items,
        floats="epsilon act_a act_b",
        variants=shared_variants(4, 8, 16),
        defaults={
            "": (variant(LANES=16, VECTOR=4),),
            "nvidia": (variant(LANES=64, VECTOR=4),),
            "pocl": (variant(LANES=1, VECTOR=8),),
            "pocl-3.1": (variant(LANES=1, VECTOR=16),),
        },
        local=lanes_local_size,
    ),
    buffer_kernel(
        "scale_shift",
        "BatchNorm",
        "x:view s:weights t:weights y:view",
        "pixels channels",
        pixel_shapes,
        pixel_work_items,
        floats="act_a act_b",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
    ),
    buffer_kernel(
        "lrn",
        "LRN",
        "x:view y:view",
        "pixels channels size",
        pixel_shapes,
        pixel_work_items,
        floats="alpha beta bias",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "softmax",
        "Softmax",
        "x:flat y:flat",
        "outer length inner "
        "x_outer_stride:any x_stride:any x_inner_stride:any y_outer_stride:any y_stride:any y_inner_stride:any",
        _softmax_shapes,
        row_work_items,
        variants=(*VARIANTS, *ROW_LANES),
        defaults=ROW_DEFAULTS,
        rule=rows_alone("x_stride", "y_stride"),
        local=lanes_local_size,
    ),
)
