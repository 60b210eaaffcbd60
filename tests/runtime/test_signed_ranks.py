"""Signed ranks: the chance is that of Wilcoxon's test, the interval covers as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.statistics import signed_ranks


@pytest.mark.parametrize("count", [3, 6, 11, 20])
def test_the_chance_is_that_of_wilcoxons_test(count: int) -> None:
    from scipy import stats  # takes a second to import

    values = np.random.default_rng(count).normal(0.3, 1, count)
    assert signed_ranks.chance(values) == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)


def test_many_pairs_are_told_as_fast_as_few_and_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = [signed_ranks.share_at_most(150, rank_sum) for rank_sum in (4200, 4700, 5600)]
    monkeypatch.setattr(signed_ranks, "MOST_EXACT", 100)
    signed_ranks._cumulative_shares.cache_clear()
    about = [signed_ranks.share_at_most(150, rank_sum) for rank_sum in (4200, 4700, 5600)]
    signed_ranks._cumulative_shares.cache_clear()
    assert about == pytest.approx(exact, abs=3e-4)
    assert signed_ranks.chance(np.random.default_rng(1).normal(0.2, 1, 2000)) < 1e-6


@pytest.mark.parametrize(("error", "pairs"), [(0.01, 8), (0.05, 6), (0.001, 11)])
def test_fewer_pairs_never_fall_below_an_error(error: float, pairs: int) -> None:
    assert signed_ranks.least_pairs(error) == pairs
    assert signed_ranks.chance(np.ones(pairs)) < error <= signed_ranks.chance(np.ones(pairs - 1))


def test_a_drift_of_both_tells_nothing_and_hides_nothing() -> None:
    drift = np.exp(np.linspace(0, 0.5, 10))
    found = signed_ranks.paired_ratio(list(drift), list(1.02 * drift))
    assert found.value == pytest.approx(1.02) and found.chance < 0.01 and found.low <= found.value <= found.high


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
