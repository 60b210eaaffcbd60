"""Loop nests visit every element once, in any order of axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.lowering.iteration import broadcast_strides, loop_nest, merge_axes, padded
from runtime.lowering.value import row_major


def visited(extents: list[int], strides: list[list[int]]) -> set[tuple[int, ...]]:
    """The offsets of all operands at every point of a nest."""
    points = itertools.product(*(range(size) for size in extents))
    return {tuple(int(np.dot(point, own)) for own in strides) for point in points}


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@pytest.mark.slow
@given(shapes, st.randoms())
def test_a_transposed_copy_visits_the_same_pairs(shape: list[int], random: object) -> None:
    perm = list(range(len(shape)))
    random.shuffle(perm)  # type: ignore[attr-defined]
    out = tuple(shape[axis] for axis in perm)
    source = tuple(row_major(tuple(shape))[axis] for axis in perm)
    target = row_major(out)
    extents, strides = loop_nest(out, [source, target])
    assert visited(extents, strides) == visited(list(out), [list(source), list(target)])


def test_dense_axes_merge_into_one() -> None:
    strides = row_major((2, 3, 4))
    assert merge_axes((2, 3, 4), [strides, strides]) == ([24], [[1], [1]])


def test_nhwc_and_row_major_keep_two_loops() -> None:
    # Four channels of 6 pixels: NCHW (6, 1) against NHWC (1, 4).
    extents, strides = loop_nest((4, 6), [(6, 1), (1, 4)])
    assert extents == [6, 4]
    assert strides == [[1, 6], [4, 1]]


def test_broadcast_repeats_by_stride_zero() -> None:
    assert broadcast_strides((3, 1), (1, 1), 3, (2, 3, 5)) == (0, 1, 0)


def test_padding_goes_in_front() -> None:
    assert padded([5, 6], 4, 1) == [1, 1, 5, 6]
