"""Two groups of measurements."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.decision.samples import compare_samples

TIMES = st.lists(st.floats(0.5, 50), min_size=1, max_size=12)


@pytest.mark.slow
@given(TIMES, TIMES)
def test_swapped_groups_give_the_inverse(first: list[float], second: list[float]) -> None:
    one, other = compare_samples(first, second), compare_samples(second, first)
    assert one and other
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert (one.low, one.high) == (pytest.approx(1 / other.high), pytest.approx(1 / other.low))
    assert one.p_value == pytest.approx(other.p_value)
    assert one.effect == pytest.approx(-other.effect)
    assert one.low <= one.ratio <= one.high


@pytest.mark.slow
@given(TIMES, TIMES, st.floats(0.01, 100))
def test_the_unit_of_measure_does_not_matter(first: list[float], second: list[float], scale: float) -> None:
    one = compare_samples(first, second)
    other = compare_samples([scale * value for value in first], [scale * value for value in second])
    assert one and other
    assert one.ratio == pytest.approx(other.ratio)
    assert one.high == pytest.approx(other.high)


@pytest.mark.slow
def test_the_interval_contains_the_true_shift_as_often_as_its_confidence() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(300):
        found = compare_samples(np.exp(random.normal(0, 0.05, 8)), 1.1 * np.exp(random.normal(0, 0.05, 8)))
        assert found
        held += found.low <= 1.1 <= found.high
    assert 0.92 <= held / 300 <= 0.985


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf], [0.0], [-2.0]])
def test_a_group_without_a_figure_is_not_compared(values: list[float]) -> None:
    assert compare_samples(values, [1.0]) is None
    assert compare_samples([1.0], values) is None
