"""Kernels that resize NHWC buffers."""

from __future__ import annotations

from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS, image_shapes, window_work_items
from runtime.kernels.spec import Defines, Dims


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
