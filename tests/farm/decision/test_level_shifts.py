"""Steps in a history."""

from __future__ import annotations

import numpy as np
import pytest

from farm.decision.level_shifts import find_level_shifts


def found(levels: np.ndarray) -> list[int]:
    return [step.at for step in find_level_shifts(levels, np.ones(len(levels)))]


def noise(nights: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.01, nights)


def test_level_shifts_are_found_at_their_nights() -> None:
    levels = noise(120)
    levels[40:] += 0.05
    levels[80:] -= 0.08
    first, second = find_level_shifts(levels, np.ones(120))
    assert (first.at, second.at) == (40, 80)
    assert first.change == pytest.approx(0.05, abs=3 * first.error)
    assert second.change == pytest.approx(-0.08, abs=3 * second.error)


@pytest.mark.parametrize("sign", [1, -1])
def test_shifts_up_and_down_are_found_alike(sign: int) -> None:
    levels = noise(60)
    levels[30:] += 0.06
    assert found(sign * levels) == found(levels) == [30]


def test_noise_and_spikes_are_no_level_shifts() -> None:
    assert sum(len(found(noise(365, seed))) for seed in range(20)) <= 1
    spiked = noise(120)
    spiked[[20, 50, 51, 90]] += 0.2
    assert found(spiked) == []


def test_a_shift_in_the_last_nights_is_too_short_to_be_a_level() -> None:
    levels = noise(60)
    levels[57:] += 0.2
    assert found(levels) == []


@pytest.mark.parametrize("nights", [0, 1, 2, 9])
def test_short_and_constant_histories_have_no_level_shifts(nights: int) -> None:
    assert found(np.zeros(nights)) == []
    assert found(np.zeros(100)) == []
