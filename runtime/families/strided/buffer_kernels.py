"""The kernels of an IndexedRead, and of functions of elements of any type, in a GPU's buffers."""

from __future__ import annotations

import functools
import math

from runtime.kernels.buffer.nests import indexed, nest_ints, nest_shapes, nest_work_items, strided_span, values
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS
from runtime.kernels.spec import Defines, Dims

NEST_LOOPS = 4


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    extents = values(dims, "d", NEST_LOOPS)
    x, k = (values(dims, prefix, NEST_LOOPS) for prefix in ("xs", "ks"))
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
        f"{indexed('d', NEST_LOOPS)} {indexed('xs', NEST_LOOPS, ':0')} {indexed('ks', NEST_LOOPS, ':0')} limit step:0",
        _shapes,
        nest_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
        cpu=False,
        picked=("x",),
    ),
    buffer_kernel(
        "elements",
        "Elementwise",
        "a:elements b:elements c:elements y:elements",
        nest_ints(NEST_LOOPS, "as bs cs ys"),
        functools.partial(nest_shapes, rank=NEST_LOOPS, tensors="a b c y"),
        nest_work_items,
        floats="alpha beta",
        variants=VARIANTS,
        defaults=DEFAULTS,
        cpu=False,
    ),
)
