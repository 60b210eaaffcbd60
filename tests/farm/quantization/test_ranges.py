"""Histograms and the ranges that are chosen of them."""

from pathlib import Path

import numpy as np
import pytest

from farm.quantization import range_file
from farm.quantization.histogram import BINS, Histogram
from farm.quantization.methods import METHODS, chosen_range


def histogram_of(*parts: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    return histogram


def test_a_histogram_grows_with_what_comes() -> None:
    random = np.random.default_rng(0)
    small, large = random.normal(0, 1e-6, 1000), random.normal(0, 100, 1000)
    joined, alone = histogram_of(small, large), histogram_of(large)
    assert joined.total == 2000 and joined.counts.size == BINS
    assert joined.limit == alone.limit and joined.lowest == np.float32(large.min())
    zero = BINS // 2
    assert joined.counts[zero - 1 : zero + 1].sum() >= 1000
    assert (joined.counts[: zero - 1] == alone.counts[: zero - 1]).all()


def test_order_does_not_matter_to_a_bin() -> None:
    random = np.random.default_rng(1)
    parts = [random.normal(0, 10.0**power, 500) for power in range(-3, 4)]
    rising, falling = histogram_of(*parts), histogram_of(*parts[::-1])
    assert rising.limit == falling.limit
    assert np.abs(np.cumsum(rising.counts) - np.cumsum(falling.counts)).max() <= 2


def test_the_least_values_have_a_place() -> None:
    histogram = histogram_of(np.array([0.0, 1e-45, -1e-45], np.float32))
    assert histogram.total == 3 and histogram.counts[: BINS // 2].sum() == 1


def test_what_is_not_finite_is_counted_apart() -> None:
    histogram = histogram_of(np.array([0.0, 1.0, np.inf, -np.inf, np.nan]))
    assert (histogram.not_finite, histogram.total, histogram.exact_zeros) == (3, 2, 1)
    assert (histogram.lowest, histogram.highest) == (0.0, 1.0)


def test_zeros_alone_have_a_range_of_nothing() -> None:
    histogram = histogram_of(np.zeros(7))
    assert histogram.total == 7
    for method in METHODS:
        assert chosen_range(method, histogram) == (0.0, 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_range_holds_zero_and_no_more_than_was_seen(method: str) -> None:
    random = np.random.default_rng(2)
    low, high = chosen_range(method, histogram_of(random.normal(5, 1, 10_000)))
    assert low == 0.0 and 7 < high < 10


@pytest.mark.parametrize("method", ["percentile", "entropy", "mse"])
def test_outliers_are_left_out_but_by_minmax(method: str) -> None:
    random = np.random.default_rng(3)
    histogram = histogram_of(random.normal(0, 1, 1_000_000), np.array([1000.0]))
    assert chosen_range("minmax", histogram)[1] == 1000.0
    low, high = chosen_range(method, histogram)
    assert high < 500 and low < -2


def test_mse_is_the_best_of_all_ranges_that_quantise_so() -> None:
    values = np.random.default_rng(4).laplace(0, 1, 200_000).astype(np.float32)
    low, high = chosen_range("mse", histogram_of(values))

    def error(low: float, high: float) -> float:
        step = (high - low) / 255
        return float(((np.clip(np.rint(values / step) * step, low, high) - values) ** 2).mean())

    best = error(low, high)
    assert best < 0.8 * error(float(values.min()), float(values.max()))
    for factor in (0.7, 0.85, 1.2, 1.5):
        assert best < 1.02 * error(low * factor, high * factor)


def test_the_clipped_share_is_that_of_the_values() -> None:
    values = np.random.default_rng(5).uniform(-1, 1, 100_000)
    assert histogram_of(values).clipped_share(-0.5, 0.9) == pytest.approx(0.3, abs=0.01)


def test_ranges_read_back_as_they_were_written(tmp_path: Path) -> None:
    ranges = {"a:0": (-1.2345678, 3e-7), "b@@c,1": (0.0, 6.0)}
    range_file.write(tmp_path / "ranges", ranges)
    assert (tmp_path / "ranges").read_text().splitlines()[1] == "b@@c,1@@0,6"
    assert range_file.read(tmp_path / "ranges") == ranges
