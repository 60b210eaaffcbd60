"""Kernels of element-wise functions, on buffers of any strides."""

from __future__ import annotations

import functools

from runtime.kernels.buffer.nests import nest_ints, nest_shapes, nest_work_items
from runtime.kernels.buffer.spec import buffer_kernel
from runtime.kernels.buffer.vectors import ITEM_DEFAULTS, ITEM_VARIANTS

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
)
