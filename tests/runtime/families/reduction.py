"""What tests launch the kernels of reduction with, and what they compute."""

import numpy as np

from runtime.kernels.codes import Reduce
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, nest
from tests.runtime.kernel_cases import EXTENTS, TABLE, Case


def reduce(
    kind: int, outer: int, reduced: int, inner: int, strides: tuple[int, int, int, int, int] | None = None
) -> Case:
    names = ("x_outer_stride", "x_reduced_stride", "x_inner_stride", "y_outer_stride", "y_inner_stride")
    values = strides or (reduced * inner, inner, 1, inner, 1)
    dims = {"outer": outer, "reduced": reduced, "inner": inner, **dict(zip(names, values, strict=True))}
    return Case(TABLE["reduce"], dims, {"REDUCE": kind})


def compute_reduce(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    loops = [dims["outer"], dims["reduced"], dims["inner"]]
    x = nest(arrays["x"], loops, [dims["x_outer_stride"], dims["x_reduced_stride"], dims["x_inner_stride"]])
    functions = {Reduce.MEAN: np.mean, Reduce.SUM: np.sum, Reduce.MAX: np.max, Reduce.MIN: np.min}
    return functions[Reduce(defines["REDUCE"])](x, 1)


CASES: dict[str, Case] = {
    **{f"reduce {kind.name}": reduce(kind, 3, 5, 19) for kind in Reduce},
    "reduce rows": reduce(Reduce.MEAN, 7, 37, 1, (37, 1, 0, 1, 0)),
    "reduce rows max": reduce(Reduce.MAX, 2, 5, 1, (5, 1, 0, 1, 0)),
    "reduce spatial NHWC": reduce(Reduce.MEAN, 2, 49, 33, (49 * 40, 40, 1, 33, 1)),
    "reduce strided": reduce(Reduce.SUM, 3, 4, 5, (1, 15, 3, 1, 3)),
}
ORACLES = {"reduce": compute_reduce}
IMAGE_CASES = {
    "reduce": (EXTENTS, (), {"REDUCE": 0}),
}
