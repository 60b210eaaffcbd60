"""The kernel of an IndexedRead in a GPU's buffers."""

from __future__ import annotations

import math

from runtime.kernels.buffer.nests import indexed, nest_work_items, strided_span, values
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS
from runtime.kernels.spec import Defines, Dims

GATHER_LOOPS = 4


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    extents = values(dims, "d", GATHER_LOOPS)
    x, k = (values(dims, prefix, GATHER_LOOPS) for prefix in ("xs", "ks"))
    (indices,) = strided_span(extents, k)
    return {
        "x": strided_span([*extents, dims["limit"]], [*x, dims["step"]]),
        "k": (indices * defines["INDEX_WORDS"],),
        "y": (math.prod(extents),),
    }


BUFFER_KERNELS = (
    buffer_kernel(
        "gather",
        "IndexedRead",
        "x:flat k:table y:flat",
        f"{indexed('d', GATHER_LOOPS)} {indexed('xs', GATHER_LOOPS, ':0')} {indexed('ks', GATHER_LOOPS, ':0')}"
        " limit step:0",
        _shapes,
        nest_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
        cpu=False,
        picked=("x",),
    ),
)
