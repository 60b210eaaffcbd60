"""Both ways to a maximum flow leave the same vertices near the source and near the sink."""

from __future__ import annotations

import itertools
import random

import pytest

from runtime.lowering import minimum_cut

SIZES = (1, 2, 3, 7, 100, minimum_cut.UNLIMITED // 100)


@pytest.mark.parametrize("seed", range(20))
def test_a_search_and_scipy_agree(seed: int) -> None:
    drawn = random.Random(seed)
    count = drawn.randint(2, 30)
    pairs = {(drawn.randrange(count), drawn.randrange(count)) for _ in range(3 * count)} | {(0, 1)}
    edges = {(start, end): drawn.choice(SIZES) for start, end in pairs if start not in (1, end) and end != 0}
    assert minimum_cut.searched_sides(edges, count, 0, 1) == minimum_cut.scipy_sides(edges, count, 0, 1)


def test_more_edges_than_are_searched() -> None:
    """A chain with one edge that is narrower than the others: it alone is cut."""
    length = minimum_cut.FEW_EDGES + 2
    order = [0, *range(2, length), 1]
    edges = dict.fromkeys(itertools.pairwise(order), 5) | {(500, 501): 4}
    near_source, near_sink = minimum_cut.near_sides(edges, length, 0, 1)
    assert near_source == {0, *range(2, 501)}
    assert near_sink == {1, *range(501, length)}
