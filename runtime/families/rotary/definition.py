"""Rotary positions: the row, what NumPy computes, and the kernel.

    y[i, e]     = x[i, e] * cos[i, e] - x[i, e + h] * sin[i, e]
    y[i, e + h] = x[i, e + h] * cos[i, e + h] + x[i, e] * sin[i, e + h]      e < h, half of the last axis

Attributes: `shape` is the output's, and element i of x lies at offset + i . strides, x counting as dense and row-major:
so it may be transposed, or rows of a wider tensor. Cosines and sines broadcast to the shape; where their last axis has
h elements, both halves read these.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.kernels.buffer.nests import indexed, nest_work_items, strided_span, values
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.buffer.vectors import DEFAULTS, VARIANTS
from runtime.kernels.spec import Defines, Dims
from runtime.operators.row import SOURCE, Operator
from runtime.semantics.generic import SHAPE_FUNCTIONS
from runtime.semantics.shape_functions import Attributes, Shape, broadcast

MOST_AXES = 4  # that the kernel has loops for


def rotary_shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The attribute's; ModelError where x or the angles do not fit it."""
    out, strides = SHAPE_FUNCTIONS["Strided"](shapes[:1], attributes), attributes["strides"]
    if not 1 <= len(out) <= MOST_AXES or out[-1] % 2 or strides[-1] != 1 or min(strides) < 0:
        raise ModelError(f"rows {out} with strides {strides}; up to {MOST_AXES} axes, the last even, are supported")
    for angles in shapes[1:]:
        if angles[-1:] not in ((out[-1],), (out[-1] // 2,)) or broadcast((angles[:-1], out[:-1]), {}) != out[:-1]:
            raise ModelError(f"angles of shape {angles} do not fit rows of shape {out}")
    return out


def compute_rotary(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """The rows, turned by their angles."""
    x, *angles = (np.ascontiguousarray(value) for value in arguments if value is not None)
    steps = [step * x.itemsize for step in attributes["strides"]]
    rows = as_strided(x.reshape(-1)[attributes["offset"] :], attributes["shape"], steps)
    low, high = np.split(rows, 2, axis=-1)
    cos, sin = (np.tile(table, rows.shape[-1] // table.shape[-1]) for table in angles)
    return np.asarray(rows * cos + np.concatenate([-high, low], axis=-1) * sin)


def _shapes(dims: Dims, defines: Defines) -> Shapes:
    extents = values(dims, "d", 3)
    steps = {name: [*values(dims, f"{name[0]}s", 3), dims[f"{name[0]}_half"], 1] for name in ("x", "cosines", "sines")}
    spans = {name: strided_span([*extents, 2, dims["d3"]], strides) for name, strides in steps.items()}
    return spans | {"y": (math.prod(extents) * 2 * dims["d3"],)}


OPERATORS = {
    "Rotary": Operator((3, 3), rotary_shape, {"shape": "ints", "strides": "ints", "offset": "int"}, format=SOURCE)
}
COMPUTE = {"Rotary": compute_rotary}
BUFFER_KERNELS = (
    buffer_kernel(
        "rotary",
        "Rotary",
        "x:flat cosines:flat sines:flat y:flat",
        " ".join([indexed("d", 4), *(f"{indexed(f'{name}s', 3, ':0')} {name}_half:0" for name in "xcs")]),
        _shapes,
        nest_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
