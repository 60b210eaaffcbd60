"""Kernels along nested loops with strides, in any storage: reductions, softmax, copies, element-wise."""

from __future__ import annotations

import functools

from runtime.kernels.buffer.channels import DEFAULTS, ITEM_DEFAULTS, ITEM_VARIANTS, VARIANTS
from runtime.kernels.buffer.spec import Shapes, buffer_kernel
from runtime.kernels.spec import Defines, Dims, Variant, WorkItems, ceil_div, variant

_COPY_VARIANTS = tuple(variant(VECTOR=vector, ROWS=rows) for vector in (4, 8, 16) for rows in (1, 4, 16))
_COPY_DEFAULTS = {
    "": (variant(VECTOR=4, ROWS=1),),
    "pocl": (variant(VECTOR=8, ROWS=16),),
    "pocl-3.1": (variant(VECTOR=16, ROWS=16),),
}


def indexed(prefix: str, rank: int) -> str:
    """Names one argument for each axis: `d0 d1 d2 d3` for the prefix d and rank 4."""
    return " ".join(f"{prefix}{axis}" for axis in range(rank))


def _span(extents: list[int], strides: list[int]) -> tuple[int]:
    """Returns how many elements a strided tensor spans, from its first to its last, as the shape of a flat tensor."""
    return (1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)),)


def _values(dims: Dims, prefix: str, rank: int) -> list[int]:
    return [dims[f"{prefix}{axis}"] for axis in range(rank)]


def _nest_shapes(dims: Dims, defines: Defines, rank: int, tensors: str) -> Shapes:
    extents = _values(dims, "d", rank)
    return {name: _span(extents, _values(dims, f"{name}s", rank)) for name in tensors.split()}


def _copy_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    outer = dims["d0"] * dims["d1"] * dims["d2"] * dims["d3"]
    return ceil_div(dims["d5"], chosen["VECTOR"]), ceil_div(dims["d4"], chosen["ROWS"]), outer


def _nest_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return ceil_div(dims["d3"], chosen["VECTOR"] * chosen.get("ITEMS", 1)), dims["d2"], dims["d0"] * dims["d1"]


def _pad_shapes(dims: Dims, defines: Defines) -> Shapes:
    return {
        "x": _span(_values(dims, "i", 4), _values(dims, "xs", 4)),
        "y": _span(_values(dims, "d", 4), _values(dims, "ys", 4)),
    }


def _reduce_shapes(dims: Dims, defines: Defines) -> Shapes:
    loops = [dims["outer"], dims["reduced"], dims["inner"]]
    strides = [dims["x_outer_stride"], dims["x_reduced_stride"], dims["x_inner_stride"]]
    y = _span([dims["outer"], dims["inner"]], [dims["y_outer_stride"], dims["y_inner_stride"]])
    return {"x": _span(loops, strides), "y": y}


def _softmax_shapes(dims: Dims, defines: Defines) -> Shapes:
    loops = [dims["outer"], dims["length"], dims["inner"]]
    strides = {t: [dims[f"{t}_outer_stride"], dims[f"{t}_stride"], dims[f"{t}_inner_stride"]] for t in "xy"}
    return {tensor: _span(loops, steps) for tensor, steps in strides.items()}


def _inner_work_items(dims: Dims, chosen: Variant) -> WorkItems:
    return ceil_div(dims["inner"], chosen["VECTOR"]), dims["outer"]


KERNELS = (
    buffer_kernel(
        "reduce",
        "Reduce",
        "x:flat y:flat",
        "outer reduced inner x_outer_stride x_reduced_stride x_inner_stride y_outer_stride y_inner_stride",
        _reduce_shapes,
        _inner_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "softmax",
        "Softmax",
        "x:flat y:flat",
        "outer length inner x_outer_stride x_stride x_inner_stride y_outer_stride y_stride y_inner_stride",
        _softmax_shapes,
        _inner_work_items,
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
    buffer_kernel(
        "copy",
        "Transpose",
        "x:flat y:flat",
        " ".join(indexed(prefix, 6) for prefix in ("d", "xs", "ys")),
        functools.partial(_nest_shapes, rank=6, tensors="x y"),
        _copy_work_items,
        variants=_COPY_VARIANTS,
        defaults=_COPY_DEFAULTS,
    ),
    buffer_kernel(
        "unary",
        "Activation",
        "x:flat y:flat",
        " ".join(indexed(prefix, 4) for prefix in ("d", "xs", "ys")),
        functools.partial(_nest_shapes, rank=4, tensors="x y"),
        _nest_work_items,
        floats="alpha beta",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
    ),
    buffer_kernel(
        "binary",
        "Eltwise",
        "a:flat b:flat y:flat",
        " ".join(indexed(prefix, 4) for prefix in ("d", "as", "bs", "ys")),
        functools.partial(_nest_shapes, rank=4, tensors="a b y"),
        _nest_work_items,
        floats="act_a act_b",
        variants=ITEM_VARIANTS,
        defaults=ITEM_DEFAULTS,
    ),
    buffer_kernel(
        "pad",
        "Pad",
        "x:flat y:flat",
        " ".join(indexed(prefix, 4) for prefix in ("d", "i", "p", "xs", "ys")),
        _pad_shapes,
        _nest_work_items,
        floats="value",
        variants=VARIANTS,
        defaults=DEFAULTS,
    ),
)
