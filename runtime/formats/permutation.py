"""Permutations of axes as Transpose has them: axis i of the result is axis `perm[i]` of the input."""

from collections.abc import Sequence

Permutation = tuple[int, ...]
Shape = tuple[int, ...]


def inverse(perm: Permutation) -> Permutation:
    """The permutation that undoes another."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def composed(first: Permutation, second: Permutation) -> Permutation:
    """The one permutation that does both, in this order."""
    return tuple(first[axis] for axis in second)


def permuted(values: Sequence[int], perm: Permutation) -> tuple[int, ...]:
    """Values that stand for the axes, such as a shape, after the permutation."""
    return tuple(values[axis] for axis in perm)


def moves_elements(shape: Shape, perm: Permutation) -> bool:
    """Whether any element lies elsewhere afterwards: not where only axes of size 1 change their places."""
    long_axes = [axis for axis in perm if shape[axis] != 1]
    return long_axes != sorted(long_axes)
