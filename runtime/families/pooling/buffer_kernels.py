"""The kernel of pooling, on NHWC buffers."""

from __future__ import annotations

from runtime.kernels.buffer.spec import buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS, image_shapes, window_work_items
from runtime.kernels.spec import WINDOW

KERNELS = (
    buffer_kernel(
        "pool",
        "Pooling",
        "x:view y:view",
        f"batch in_h in_w channels out_h out_w {WINDOW} count_include_pad:0-1",
        image_shapes,
        window_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
