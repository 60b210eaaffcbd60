"""What MaxPool and AveragePool are: their rows, what they compute, and their kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.graph import Array
from runtime.kernels.blocked import blocked_row
from runtime.kernels.buffer.spec import buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS, image_shapes, window_work_items
from runtime.kernels.image.pixels import sampled_grid, sampled_images
from runtime.kernels.image.spec import image_kernel
from runtime.kernels.spec import WINDOW
from runtime.operators.row import FIXED, AttributeKind, Operator
from runtime.oracle.shared import Compute, first_input, image_windows
from runtime.semantics import quantization
from runtime.semantics.shape_functions import Attributes, Shape, require_rank, window_outputs


def _shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, channels, height, width) of a window that slides over images."""
    x = shapes[0]
    require_rank(x, 4, "the input")
    return (*x[:2], *window_outputs(x[2:], attributes["kernel"], attributes["strides"], attributes["pads"]))


_WINDOW: Mapping[str, AttributeKind] = {"kernel": "pair", "strides": "pair", "pads": "sides"}


OPERATORS = {
    "MaxPool": Operator((1, 1), _shape, _WINDOW, format=FIXED, quantization=quantization.kept),
    "AveragePool": Operator((1, 1), _shape, {**_WINDOW, "count_include_pad": "bool"}, format=FIXED),
}


def _max_pool(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    return np.asarray(image_windows(x, attributes["kernel"], attributes, -np.inf).max(axis=(4, 5)))


def _average_pool(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    sums = image_windows(x, attributes["kernel"], attributes, 0).sum(axis=(4, 5))
    if attributes["count_include_pad"]:
        return np.asarray(sums / math.prod(attributes["kernel"]))
    inside = np.ones((1, 1, *x.shape[2:]), x.dtype)
    return np.asarray(sums / image_windows(inside, attributes["kernel"], attributes, 0).sum(axis=(4, 5)))


COMPUTE: Mapping[str, Compute] = {"MaxPool": _max_pool, "AveragePool": _average_pool}
_POOL = f"batch in_h in_w channels out_h out_w {WINDOW} count_include_pad:0-1"
BUFFER_KERNELS = (
    buffer_kernel(
        "pool",
        "Pooling",
        "x:view y:view",
        _POOL,
        image_shapes,
        window_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
        pocl_local=(4, 4, 1),
    ),
    buffer_kernel(
        "pool_bytes",
        "Pooling",
        "x:view y:view",
        f"{_POOL} multiplier:any shift:any",
        image_shapes,
        window_work_items,
        source="pool",
        floats="scale act_a act_b",
        variants=VARIANTS,
        defaults=DEFAULTS,
        cpu=False,
    ),
)
IMAGE_KERNELS = (
    image_kernel(
        "pool",
        "Pooling",
        "x y",
        "batch in_h in_w channels out_h out_w k_h k_w stride_h stride_w pad_t pad_l dil_h dil_w count_include_pad",
        sampled_images,
        sampled_grid,
        tunable=True,
    ),
)
_FIXED = "fixed:0-2 multiplier:any shift:any"
BLOCKED_POOL = blocked_row("blocked_pool", "Pooling", "x y", _POOL)
QUANTIZED_POOL = blocked_row("quantized_pool", "Pooling", "x:bytes y:bytes", f"{_POOL} {_FIXED}", "scale low high")
BLOCKED_GLOBAL_POOL = blocked_row("blocked_global_pool", "Pooling", "x y", "batch in_h in_w channels")

BLOCK_KERNELS = (BLOCKED_POOL, QUANTIZED_POOL, BLOCKED_GLOBAL_POOL)
