import numpy as np

from tuner.statistics import Ratio, ratio_of_medians


def rounds(median: float, noise: float, random: np.random.Generator, drift: np.ndarray) -> list[list[float]]:
    return [list(median * factor * (1 + abs(random.normal(0, noise, 5)))) for factor in drift]


def trial(speed: float, noise: float, seed: int, count: int = 8) -> Ratio:
    random = np.random.default_rng(seed)
    drift = 1 + 0.2 * random.random(count)
    ratio = ratio_of_medians(rounds(1000 / speed, noise, random, drift), rounds(1000, noise, random, drift))
    assert ratio is not None
    return ratio


def test_equal_launches_are_rarely_called_faster() -> None:
    assert sum(trial(1.0, 0.05, seed).is_faster for seed in range(100)) <= 5


def test_a_gain_of_a_fifth_is_always_called_faster() -> None:
    assert all(trial(1.25, 0.02, seed).is_faster for seed in range(30))


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
