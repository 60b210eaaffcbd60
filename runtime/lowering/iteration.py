"""Makes the loop nests of strided kernels: sorts the axes, and merges those that every operand allows to merge."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
