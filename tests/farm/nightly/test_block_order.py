"""The order of a night: everything once a repeat, labels in pairs, the same for the same seed."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.nightly.block_order import block_order, expected_duration_s
from farm.rows.series import Case

CASES = [Case("pixel", "library", name, "gpu", "default") for name in "abcdefgh"]


@pytest.mark.slow
@given(st.integers(0, 8), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_every_repeat_visits_every_case_once_and_labels_come_in_pairs(count: int, pairs: int, seed: int) -> None:
    cases = CASES[:count]
    planned = block_order(cases, 2 * pairs, seed)
    for repeat in range(2 * pairs):
        assert sorted(block.case for block in planned if block.repeat == repeat) == cases
    for case in cases:
        arms = [block.arm for block in sorted(planned, key=lambda block: block.repeat) if block.case == case]
        assert all(set(arms[at : at + 2]) == {"a", "b"} for at in range(0, 2 * pairs, 2))


def test_the_seed_fixes_the_order_and_repeats_differ() -> None:
    assert block_order(CASES, 6, 1) == block_order(CASES, 6, 1) != block_order(CASES, 6, 2)
    orders = {tuple(block.case for block in block_order(CASES, 6, 1) if block.repeat == repeat) for repeat in range(6)}
    assert len(orders) == 6
    first = collections.Counter(block_order(CASES, 2, seed)[0].case for seed in range(400))
    assert set(first) == set(CASES) and max(first.values()) < 100, "no case is always first"


def test_expected_duration_follows_the_blocks_of_earlier_nights() -> None:
    known = {CASES[0]: 2.0, CASES[1]: 4.0}
    assert expected_duration_s(CASES[:2], 6, known) == pytest.approx(36.0)
    assert expected_duration_s(CASES[:3], 6, known) == pytest.approx(54.0), "a new case counts as the average"
    assert expected_duration_s(CASES[2:3], 6, known) is None
