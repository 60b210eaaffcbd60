"""Steps in a history."""

from __future__ import annotations

import numpy as np
import pytest

from farm.decision.steps import find_steps


def found(levels: np.ndarray) -> list[int]:
    return [step.at for step in find_steps(levels, np.ones(len(levels)))]


def noise(nights: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.01, nights)


def test_steps_are_found_where_they_are() -> None:
    levels = noise(120)
    levels[40:] += 0.05
    levels[80:] -= 0.08
    first, second = find_steps(levels, np.ones(120))
    assert (first.at, second.at) == (40, 80)
    assert first.change == pytest.approx(0.05, abs=3 * first.error)
    assert second.change == pytest.approx(-0.08, abs=3 * second.error)


@pytest.mark.parametrize("sign", [1, -1])
def test_both_directions_are_alike(sign: int) -> None:
    levels = noise(60)
    levels[30:] += 0.06
    assert found(sign * levels) == found(levels) == [30]


def test_neither_noise_nor_spikes_are_steps() -> None:
    assert sum(len(found(noise(365, seed))) for seed in range(20)) <= 1
    spiked = noise(120)
    spiked[[20, 50, 51, 90]] += 0.2
    assert found(spiked) == []


def test_a_step_of_the_last_nights_is_not_history_yet() -> None:
    levels = noise(60)
    levels[57:] += 0.2
    assert found(levels) == []


@pytest.mark.parametrize("nights", [0, 1, 2, 9])
def test_short_and_constant_histories(nights: int) -> None:
    assert found(np.zeros(nights)) == []
    assert found(np.zeros(100)) == []
