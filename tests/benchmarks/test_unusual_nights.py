"""Which nights look unusual: as many as were asked for, whatever the noise, and those of a change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.unusual_nights import rarity

SHARE = 0.1


def noise(kind: str, nights: int = 1500) -> np.ndarray:
    random = np.random.default_rng(5)
    return {
        "normal": random.normal(0, 0.01, nights),
        "heavy": 0.01 * random.standard_t(3, nights),
        "two clocks": random.normal(0, 0.01, nights) + 0.15 * (random.random(nights) < 0.5),
        "walk": np.cumsum(random.normal(0, 0.003, nights)),
    }[kind]


@pytest.mark.parametrize(("kind", "most"), [("normal", 0.13), ("heavy", 0.13), ("two clocks", 0.13), ("walk", 0.2)])
def test_about_the_share_of_nights_is_unusual_whatever_the_noise(kind: str, most: float) -> None:
    assert 0.03 < np.mean(rarity(noise(kind)).least <= SHARE) < most


@pytest.mark.parametrize("step", [0.1, -0.1])
def test_the_night_of_a_step_is_unusual(step: float) -> None:
    levels = noise("normal", 100)
    levels[90:] += step
    assert rarity(levels).moved[90] < 0.02


def test_a_level_between_two_known_ones_is_new_but_no_move() -> None:
    levels = noise("two clocks", 100)
    levels[99] = 0.075
    found = rarity(levels)
    assert found.new[99] < 0.02 < found.moved[99]


def test_a_ramp_is_a_slow_move() -> None:
    levels = noise("normal", 120)
    levels[80:] += np.linspace(0, 0.1, 40)
    assert rarity(levels).slow[100:].min() < 0.05


def test_nothing_is_unusual_while_the_past_is_too_short() -> None:
    assert (rarity(np.array([1.0, 9.0, 1.0, 9.0, 5.0])).least == 1).all()
    assert len(rarity(np.empty(0)).least) == 0


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 10.0), st.floats(-5, 5), st.integers(30, 99))
def test_neither_scale_nor_level_nor_the_future_matters(scale: float, level: float, until: int) -> None:
    levels = noise("normal", 100)
    found = rarity(level + scale * levels[:until]).least
    assert found == pytest.approx(rarity(levels).least[:until])


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(60)))
def test_a_step_is_unusual_in_whatever_order_the_nights_before_came(order: list[int]) -> None:
    levels = np.append(noise("normal", 60)[order], 0.1)
    assert rarity(levels).moved[-1] < 0.02
