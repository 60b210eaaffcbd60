import numpy as np
import pytest

from runtime.statistics import signed_ranks
from runtime.statistics.ratios import Ratio, ratio_of_medians, ratio_of_pairs


def rounds(median: float, noise: float, random: np.random.Generator, drift: np.ndarray) -> list[list[float]]:
    return [list(median * factor * (1 + abs(random.normal(0, noise, 5)))) for factor in drift]


def trial(speed: float, noise: float, seed: int, count: int = 8) -> Ratio:
    random = np.random.default_rng(seed)
    drift = 1 + 0.2 * random.random(count)
    ratio = ratio_of_medians(rounds(1000 / speed, noise, random, drift), rounds(1000, noise, random, drift))
    assert ratio is not None
    return ratio


@pytest.mark.slow
def test_equal_launches_are_rarely_called_faster() -> None:
    assert sum(trial(1.0, 0.05, seed).is_faster for seed in range(100)) <= 5


@pytest.mark.slow
def test_a_gain_of_a_fifth_is_always_called_faster() -> None:
    assert all(trial(1.25, 0.02, seed).is_faster for seed in range(30))


@pytest.mark.parametrize(("low", "high", "faster"), [(0.8, 0.99, True), (0.8, 1.01, False), (1.01, 1.2, False)])
def test_only_an_interval_below_one_is_faster(low: float, high: float, faster: bool) -> None:
    assert Ratio((low + high) / 2, low, high).is_faster == faster


def test_shared_drift_does_not_hide_a_gain() -> None:
    random = np.random.default_rng(1)
    drift = np.linspace(1.0, 2.0, 10)
    ratio = ratio_of_medians(rounds(900, 0.005, random, drift), rounds(1000, 0.005, random, drift), confidence=0.95)
    assert ratio is not None
    assert ratio.is_faster


def test_the_interval_contains_the_ratio_and_the_gain_is_one_minus_it() -> None:
    ratio = trial(1.1, 0.03, 5)
    assert ratio.low <= ratio.value <= ratio.high
    low, high = ratio.gain_interval
    assert low <= ratio.gain_percent <= high
    assert Ratio(0.8, 0.7, 0.9).gain_percent == 20.0 or abs(Ratio(0.8, 0.7, 0.9).gain_percent - 20) < 1e-9


def test_fewer_rounds_than_the_minimum_give_no_ratio() -> None:
    assert ratio_of_medians([[1.0]] * 4, [[2.0]] * 9) is None


def test_same_samples_give_the_same_interval() -> None:
    assert trial(1.1, 0.03, 7) == trial(1.1, 0.03, 7)


def test_rounds_of_unequal_length_are_cut_to_the_shortest() -> None:
    ratio = ratio_of_medians([[1.0, 9.0]] * 4 + [[1.0]], [[2.0]] * 5)
    assert ratio == Ratio(0.5, 0.5, 0.5)


PAIRS, TRIES = 12, 2000


def process_effects(kind: str, size: float, random: np.random.Generator) -> np.ndarray:
    """Log times of whole processes that do the very same: bell-shaped, heavy-tailed, or one of two clock states."""
    match kind:
        case "normal":
            return random.normal(0, size, (TRIES, PAIRS))
        case "heavy tails":
            return size * random.standard_t(3, (TRIES, PAIRS)) / 3**0.5
        case _:
            return 2 * size * (random.random((TRIES, PAIRS)) < 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "two states"])
@pytest.mark.parametrize("size", [0.0, 0.005, 0.01, 0.02])
def test_of_two_that_are_the_same_the_interval_of_pairs_misses_one_in_twenty(kind: str, size: float) -> None:
    """Twelve pairs can give intervals of 94.8 % and of 95.8 %; the wider one is taken."""
    random = np.random.default_rng(int(1000 * size))
    drift = random.normal(0, 0.05, (TRIES, PAIRS))
    one, other = (
        np.exp(drift + process_effects(kind, size, random) + random.normal(0, 0.002, (TRIES, PAIRS))) for _ in range(2)
    )
    ratios = [ratio_of_pairs(list(a), list(b)) for a, b in zip(one, other, strict=True)]
    covered = sum(ratio is not None and ratio.low <= 1.0 <= ratio.high for ratio in ratios)
    assert 0.94 <= covered / TRIES <= 0.975
    assert sum(ratio is not None and ratio.is_faster for ratio in ratios) / TRIES <= 0.03


def test_pairs_show_a_gain_of_three_percent_among_processes_that_differ_by_one() -> None:
    random = np.random.default_rng(0)
    one, other = (np.exp(random.normal(0, 0.01, (200, PAIRS))) for _ in range(2))
    ratios = [ratio_of_pairs(list(0.97 * a), list(b)) for a, b in zip(one, other, strict=True)]
    assert sum(ratio is not None and ratio.is_faster for ratio in ratios) > 180


def test_one_pair_that_was_disturbed_hides_no_gain() -> None:
    times = [9.0, 9.1, 8.9, 9.0, 30.0, 9.0, 9.1, 8.9, 9.0, 8.95, 9.05, 9.0]
    ratio = ratio_of_pairs(times, [10.0] * 12)
    assert ratio is not None and ratio.is_faster and abs(ratio.value - 0.9) < 0.02


def test_too_few_pairs_give_no_ratio() -> None:
    assert ratio_of_pairs([1.0] * 4, [2.0] * 9) is None


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
