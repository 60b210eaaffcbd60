"""Makes the loop nests of strided kernels: sorts the axes, merges those that every operand allows, reductions too."""

import math
from collections.abc import Sequence

from runtime.lowering.value import Value

Strides = tuple[int, ...]


def merge_axes(shape: Sequence[int], operands: Sequence[Strides]) -> tuple[list[int], list[list[int]]]:
    """Drops axes of one element and merges neighbours that are contiguous for every operand.

    Args:
        shape: elements along each axis.
        operands: strides of each operand along the same axes (0 broadcasts).

    Returns:
        The merged extents, and for each operand its strides; at least one axis.
    """
    extents: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        steps = [operand[axis] for operand in operands]
        if extents and all(own[-1] == step * size for own, step in zip(strides, steps, strict=True)):
            extents[-1] *= size
            for own, step in zip(strides, steps, strict=True):
                own[-1] = step
        else:
            extents.append(size)
            for own, step in zip(strides, steps, strict=True):
                own.append(step)
    if not extents:
        return [1], [[1] for _ in operands]
    return extents, strides


def loop_nest(shape: Sequence[int], operands: Sequence[Strides]) -> tuple[list[int], list[list[int]]]:
    """Sorts the axes so that the last operand, the output, is written in order, and merges them (`merge_axes`)."""
    order = sorted(range(len(shape)), key=lambda axis: -abs(operands[-1][axis]) if shape[axis] > 1 else -math.inf)
    ordered = [tuple(operand[axis] for axis in order) for operand in operands]
    return merge_axes([shape[axis] for axis in order], ordered)


def padded(values: Sequence[int], rank: int, fill: int) -> list[int]:
    """Puts `fill` before the values until there are `rank` of them."""
    return [fill] * (rank - len(values)) + list(values)


def broadcast_strides(shape: Sequence[int], strides: Strides, rank: int, out: Sequence[int]) -> Strides:
    """Returns an operand's strides along the axes of a broadcast result of shape `out`: 0 where the operand repeats."""
    aligned = [1] * (rank - len(shape)) + list(shape)
    steps = [0] * (rank - len(shape)) + list(strides)
    return tuple(0 if size == 1 and wide != 1 else step for size, step, wide in zip(aligned, steps, out, strict=True))


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
