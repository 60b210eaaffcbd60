"""How the generic operators say others: for element types, and ranks, that these have no kernels for."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.semantics.generic import Shape, broadcast_view, row_major_strides

Attributes = Mapping[str, Any]
Form = tuple[str, dict[str, Any]]
_Writer = Callable[[Sequence[Shape], np.dtype[Any], Attributes], Form | None]
_REDUCTIONS = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min"}


def generic_form(op: str, shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form | None:
    """Operator and attributes of the generic form on the same inputs; None where there is none.

    `shapes` and `dtype` are those of the inputs, the latter of the first one.
    """
    if op not in _FORMS or attributes.get("activation", "none") != "none":
        return None
    return _FORMS[op](shapes, dtype, attributes)


def element_form(function: str, dtype: np.dtype[Any] | str, alpha: float = 0.0, beta: float = 0.0) -> dict[str, Any]:
    """Attributes of an Elementwise operator."""
    return {"function": function, "dtype": np.dtype(dtype).name, "alpha": float(alpha), "beta": float(beta)}


def view_form(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> dict[str, Any]:
    """Attributes of a Strided operator."""
    return {"shape": tuple(shape), "strides": tuple(strides), "offset": offset}


def reduction_form(
    shape: Shape, axes: Sequence[int], keepdims: bool, function: str, dtype: np.dtype[Any] | str
) -> dict[str, Any]:
    """Attributes of a StridedReduction over some axes of a dense tensor."""
    strides = row_major_strides(shape)
    kept = [axis for axis in range(len(shape)) if keepdims or axis not in axes]
    return {
        "function": function,
        "dtype": np.dtype(dtype).name,
        "shape": tuple(1 if axis in axes else shape[axis] for axis in kept),
        "window": tuple(shape[axis] for axis in sorted(axes)),
        "strides": (
            *(0 if axis in axes else strides[axis] for axis in kept),
            *(strides[axis] for axis in sorted(axes)),
        ),
        "offset": 0,
    }


def gather_form(shape: Shape, indices: Shape, axis: int) -> dict[str, Any]:
    """Attributes of an IndexedRead that puts a tensor of indices in place of one axis."""
    strides, rank = row_major_strides(shape), len(indices)
    return {
        "shape": (*shape[:axis], *indices, *shape[axis + 1 :]),
        "strides": (*strides[:axis], *(0,) * rank, *strides[axis + 1 :]),
        "index_strides": (*(0,) * axis, *row_major_strides(indices), *(0,) * (len(shape) - axis - 1)),
        "component_stride": 0,
        "limits": (shape[axis],),
        "limit_strides": (strides[axis],),
    }


def _element(function: str) -> _Writer:
    return lambda shapes, dtype, attributes: ("Elementwise", element_form(function, dtype))


def _slice(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
    shape, strides, offset = list(shapes[0]), list(row_major_strides(shapes[0])), 0
    for start, end, axis, step in zip(*(attributes[name] for name in ("starts", "ends", "axes", "steps")), strict=True):
        offset += start * strides[axis]
        shape[axis], strides[axis] = len(range(start, end, step)), strides[axis] * step
    return "Strided", view_form(shape, strides, offset)


def _transpose(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
    strides = row_major_strides(shapes[0])
    perm = attributes["perm"]
    return "Strided", view_form([shapes[0][axis] for axis in perm], [strides[axis] for axis in perm])


def _reshape(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
    return "Strided", view_form(attributes["shape"], row_major_strides(attributes["shape"]))


def _identity(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
    return "Strided", view_form(shapes[0], row_major_strides(shapes[0]))


def _join(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
    return "Join", {"axis": attributes["axis"]}


def _pad(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form | None:
    x, pads = shapes[0], attributes["pads"]
    if attributes["mode"] != "constant":
        return None
    shape = tuple(size + pads[axis] + pads[axis + len(x)] for axis, size in enumerate(x))
    starts, steps = tuple(pads[: len(x)]), (1,) * len(x)
    return "Embedding", {"shape": shape, "starts": starts, "steps": steps, "value": attributes["value"]}


def _reduce(function: str) -> _Writer:
    def write(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
        form = reduction_form(shapes[0], attributes["axes"], attributes["keepdims"], function, dtype)
        return "StridedReduction", form

    return write


def _matmul(shapes: Sequence[Shape], dtype: np.dtype[Any], attributes: Attributes) -> Form:
    a, b = shapes
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    a_batch, b_batch = (
        tuple(step * math.prod(shape[-2:]) for step in broadcast_view(shape[:-2], batch)) for shape in (a, b)
    )
    return "StridedProduct", {
        "shape": (*batch, a[-2], b[-1]),
        "summed": (a[-1],),
        "a_strides": (*a_batch, a[-1], 0, 1),
        "b_strides": (*b_batch, 0, 1, b[-1]),
    }


_FORMS: Mapping[str, _Writer] = {
    **{op: _element(op.lower()) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Neg", "Abs")},
    **{op: _element(op.lower()) for op in ("Floor", "Ceil", "Round")},
    **{op: _reduce(function) for op, function in _REDUCTIONS.items()},
    "Slice": _slice,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Identity": _identity,
    "Concat": _join,
    "Pad": _pad,
    "MatMul": _matmul,
}
