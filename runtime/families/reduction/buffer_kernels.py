"""The kernel of reductions, on buffers of any strides."""

from __future__ import annotations

from runtime.kernels.buffer.nests import inner_work_items, strided_span
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS
from runtime.kernels.spec import Defines, Dims


def _reduce_shapes(dims: Dims, defines: Defines) -> Shapes:
    loops = [dims["outer"], dims["reduced"], dims["inner"]]
    strides = [dims["x_outer_stride"], dims["x_reduced_stride"], dims["x_inner_stride"]]
    y = strided_span([dims["outer"], dims["inner"]], [dims["y_outer_stride"], dims["y_inner_stride"]])
    return {"x": strided_span(loops, strides), "y": y}


BUFFER_KERNELS = (
    buffer_kernel(
        "reduce",
        "Reduce",
        "x:flat y:flat",
        "outer reduced inner "
        "x_outer_stride:any x_reduced_stride:any x_inner_stride:any y_outer_stride:any y_inner_stride:any",
        _reduce_shapes,
        inner_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
