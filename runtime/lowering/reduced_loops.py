"""Reductions as three nested loops (outer, reduced, inner) over any buffer storage."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.lowering.iteration import merge_axes
from runtime.lowering.value import Value

Loop = tuple[int, int, int]  # elements, stride in x, stride in y


def reduced_loops(
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
