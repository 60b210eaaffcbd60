"""Lowers reductions and softmax to three nested loops (outer, reduced, inner) over any buffer storage."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.graph import Node
from runtime.kernels.codes import Reduce
from runtime.lowering.builder import Builder
from runtime.lowering.iteration import merge_axes
from runtime.lowering.value import Value, row_major
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

Loop = tuple[int, int, int]  # elements, stride in x, stride in y


def lower_reduce(builder: Builder, node: Node) -> None:
    """Lowers a mean, sum, maximum or minimum over some axes; rearranges them first where they make no three loops."""
    axes = node.attrs["axes"] or tuple(range(len(builder.graph.shape(node.inputs[0]))))
    x = builder.read_any(node.inputs[0])
    outer_axes = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    y = builder.write(node.output, x.storage if node.attrs["keepdims"] else Storage.FLAT)
    y_strides = _kept_strides(y, outer_axes, node.attrs["keepdims"])
    loops = _loops(x, outer_axes, axes, y_strides)
    if loops is None:
        x = _rearranged(builder, node, x, (*outer_axes, *axes))
        outer_axes, axes = tuple(range(len(outer_axes))), tuple(range(len(outer_axes), len(x.shape)))
        loops = _loops(x, outer_axes, axes, row_major(tuple(x.shape[axis] for axis in outer_axes)))
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


def lower_softmax(builder: Builder, node: Node) -> None:
    """Lowers Softmax, exp(x - maximum) / sum of these along one axis, and LogSoftmax, its logarithm."""
    x = builder.read_any(node.inputs[0])
    axis = node.attrs["axis"]
    outer_axes = tuple(other for other in range(len(x.shape)) if other != axis)
    y = builder.write(node.output, x.storage)
    loops = _loops(x, outer_axes, (axis,), tuple(y.strides[other] for other in outer_axes))
    if loops is None:
        x, y = builder.read(node.inputs[0], Storage.FLAT), builder.write(node.output, Storage.FLAT)
        loops = _loops(x, outer_axes, (axis,), tuple(y.strides[other] for other in outer_axes))
    assert loops is not None  # row-major with one axis taken out: at most an outer and an inner loop
    outer, reduced, inner = loops
    dims = {"outer": outer[0], "length": reduced[0], "inner": inner[0]}
    dims |= {"x_outer_stride": outer[1], "x_stride": reduced[1], "x_inner_stride": inner[1]}
    dims |= {"y_outer_stride": outer[2], "y_stride": y.strides[axis], "y_inner_stride": inner[2]}
    defines = {"LOG": int(node.op == "LogSoftmax")}
    builder.launch("softmax", node.name, node.op, {"x": x, "y": y}, dims, defines=defines, shown=ProfileInfo(y.shape))


def _kept_strides(y: Value, axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    return tuple(y.strides[axis] for axis in axes) if keepdims else y.strides


def _loops(
    x: Value, kept: Sequence[int], axes: Sequence[int], y_strides: Sequence[int]
) -> tuple[Loop, Loop, Loop] | None:
    """Returns the loops (outer, reduced, inner), or None where the axes do not merge into three."""
    reduced, reduced_steps = merge_axes(*_sorted([x.shape[a] for a in axes], [[x.strides[a] for a in axes]]))
    outer, steps = merge_axes(*_sorted([x.shape[a] for a in kept], [[x.strides[a] for a in kept], list(y_strides)]))
    if len(reduced) > 1 or len(outer) > 2:
        return None
    pairs = [(size, steps[0][i], steps[1][i]) for i, size in enumerate(outer)]
    if len(pairs) == 1:
        pairs = [(1, 0, 0), pairs[0]] if pairs[0][1] == 1 else [pairs[0], (1, 0, 0)]
    return pairs[0], (reduced[0], reduced_steps[0][0], 0), pairs[1]


def _sorted(shape: list[int], operands: list[list[int]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Sorts the axes by the first operand's stride, the largest first; returns their extents and all strides."""
    order = sorted(range(len(shape)), key=lambda axis: -operands[0][axis])
    return [shape[axis] for axis in order], [tuple(operand[axis] for axis in order) for operand in operands]


def _rearranged(builder: Builder, node: Node, x: Value, order: tuple[int, ...]) -> Value:
    """Emits a copy of `x` that is row-major with its axes in the given order, and returns it."""
    shape = tuple(x.shape[axis] for axis in order)
    copy = Value(f"{node.name}:arranged", shape, Storage.FLAT, x.element)
    source = tuple(x.strides[axis] for axis in order)
    builder.strided_copy(copy.name, "Transpose", x, copy, shape, source, copy.strides, note="axes rearranged to reduce")
    return copy


LOWERINGS = {
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), lower_reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), lower_softmax),
}
