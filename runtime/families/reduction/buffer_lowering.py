"""Lowers reductions to three nested loops (outer, reduced, inner) over any buffer storage."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.graph import Node
from runtime.kernels.codes import Reduce
from runtime.lowering.builder import Builder
from runtime.lowering.reduced_loops import reduced_loops
from runtime.lowering.value import Value, row_major
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_reduce(builder: Builder, node: Node) -> None:
    """Lowers a mean, sum, maximum or minimum over some axes; rearranges them first where they make no three loops."""
    axes = node.attrs["axes"] or tuple(range(len(builder.graph.shape(node.inputs[0]))))
    x = builder.read_any(node.inputs[0])
    outer_axes = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    y = builder.write(node.output, x.storage if node.attrs["keepdims"] else Storage.FLAT)
    y_strides = _kept_strides(y, outer_axes, node.attrs["keepdims"])
    loops = reduced_loops(x, outer_axes, axes, y_strides)
    if loops is None:
        x = _rearranged(builder, node, x, (*outer_axes, *axes))
        outer_axes, axes = tuple(range(len(outer_axes))), tuple(range(len(outer_axes), len(x.shape)))
        loops = reduced_loops(x, outer_axes, axes, row_major(tuple(x.shape[axis] for axis in outer_axes)))
        y = builder.write(node.output, Storage.FLAT)
    assert loops is not None  # row-major, reduced axes last: always three loops
    outer, reduced, inner = loops
    dims = {"outer": outer[0], "reduced": reduced[0], "inner": inner[0]}
    dims |= {"x_outer_stride": outer[1], "x_reduced_stride": reduced[1], "x_inner_stride": inner[1]}
    dims |= {"y_outer_stride": outer[2], "y_inner_stride": inner[2]}
    kind = Reduce[node.op.removeprefix("Reduce").upper()]
    op = "Pooling" if tuple(axes) == (2, 3) and x.storage == Storage.NHWC else "Reduce"
    builder.launch(
        "reduce", node.name, op, {"x": x, "y": y}, dims, defines={"REDUCE": int(kind)}, shown=ProfileInfo(y.shape)
    )


def _kept_strides(y: Value, axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    return tuple(y.strides[axis] for axis in axes) if keepdims else y.strides


def _rearranged(builder: Builder, node: Node, x: Value, order: tuple[int, ...]) -> Value:
    """Emits a copy of `x` that is row-major with its axes in the given order, and returns it."""
    shape = tuple(x.shape[axis] for axis in order)
    copy = Value(f"{node.name}:arranged", shape, Storage.FLAT, x.element)
    source = tuple(x.strides[axis] for axis in order)
    builder.strided_copy(copy.name, "Transpose", x, copy, shape, source, copy.strides, note="axes rearranged to reduce")
    return copy


BUFFER_LOWERINGS = dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), lower_reduce)
