"""Signed ranks: the chance is that of Wilcoxon's test, the interval covers as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from runtime import signed_ranks


@pytest.mark.parametrize("count", [3, 6, 11, 20])
def test_the_chance_is_that_of_wilcoxons_test(count: int) -> None:
    from scipy import stats  # takes a second to import

    values = np.random.default_rng(count).normal(0.3, 1, count)
    assert signed_ranks.chance(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)


def test_ties_and_zeros_tell_no_difference() -> None:
    assert signed_ranks.chance(np.zeros(20)) == 1.0
    assert signed_ranks.chance(np.array([0.1, -0.1] * 8)) > 0.5


@pytest.mark.parametrize("count", [6, 12, 20])
def test_the_interval_covers_as_often_as_it_says_however_heavy_the_tails(count: int) -> None:
    random, tries = np.random.default_rng(count), 1000
    ends = [signed_ranks.shift(1.0 + random.standard_t(2, count))[::2] for _ in range(tries)]
    assert 0.93 <= sum(low <= 1.0 <= high for low, high in ends) / tries <= 0.99


def test_too_few_values_give_their_whole_range() -> None:
    assert signed_ranks.shift(np.array([1.0, 2.0, 4.0])) == (1.0, 2.25, 4.0)
