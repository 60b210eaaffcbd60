"""Kernels that move elements of buffers: strided copies and padding."""

import functools

from runtime.kernels.buffer.nests import indexed, nest_ints, nest_shapes, nest_work_items, strided_span, values
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant

_COPY_VARIANTS = tuple(variant(VECTOR=vector, ROWS=rows) for vector in (4, 8, 16) for rows in (1, 4, 16))
_COPY_DEFAULTS = {
    "": (variant(VECTOR=4, ROWS=1),),
    "pocl": (variant(VECTOR=8, ROWS=16),),
    "pocl-3.1": (variant(VECTOR=16, ROWS=16),),
}


def _copy_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    outer = dims["d0"] * dims["d1"] * dims["d2"] * dims["d3"]
    return ceil_div(dims["d5"], chosen["VECTOR"]), ceil_div(dims["d4"], chosen["ROWS"]), outer


def _pad_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {
        "x": strided_span(values(dims, "i", 4), values(dims, "xs", 4)),
        "y": strided_span(values(dims, "d", 4), values(dims, "ys", 4)),
    }


BUFFER_KERNELS = (
    buffer_kernel(
        "copy",
        "Transpose",
        "x:flat y:flat",
        nest_ints(6, "xs ys"),
        functools.partial(nest_shapes, rank=6, tensors="x y"),
        _copy_work_items,
        variants=_COPY_VARIANTS,
        defaults=_COPY_DEFAULTS,
    ),
    buffer_kernel(
        "pad",
        "Pad",
        "x:flat y:flat",
        f"{indexed('d', 4)} {indexed('i', 4)} {' '.join(indexed(prefix, 4, ':any') for prefix in ('p', 'xs', 'ys'))}",
        _pad_shapes,
        nest_work_items,
        floats="value",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
