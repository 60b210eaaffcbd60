"""Two states are recognised where there are two, and noise of one state hardly ever looks like them."""

from collections.abc import Callable

import numpy as np
import pytest

from tuner.speed_states import LEAST_SAMPLES, speed_states

Noise = Callable[[np.random.Generator, int], np.ndarray]
TRIES = 400


def gaussian(random: np.random.Generator, count: int) -> np.ndarray:
    return 0.05 * random.normal(size=count)


def heavy_tailed(random: np.random.Generator, count: int) -> np.ndarray:
    return 0.05 * random.standard_t(3, count)


def skewed(random: np.random.Generator, count: int) -> np.ndarray:
    """Lognormal times above a floor: what disturbs only adds."""
    return np.log1p(0.05 * random.lognormal(0, 1, count))


def drifting(random: np.random.Generator, count: int) -> np.ndarray:
    """A unit that warms up: neighbouring samples are alike, and there are no two groups."""
    return 0.3 * np.linspace(0, 1, count) + 0.03 * random.normal(size=count)


def sticky_states(random: np.random.Generator, count: int, stay: float, slow_share: float) -> np.ndarray:
    states = np.empty(count, bool)
    states[0] = random.random() < slow_share
    for index in range(1, count):
        states[index] = states[index - 1] if random.random() < stay else random.random() < slow_share
    return states


@pytest.mark.slow
@pytest.mark.parametrize("noise", [gaussian, heavy_tailed, skewed, drifting])
@pytest.mark.parametrize("count", [LEAST_SAMPLES, 40, 300])
def test_noise_of_one_state_is_hardly_ever_taken_for_two(noise: Noise, count: int) -> None:
    """Of 4,000 tries each at most 1 in 1,000 was; so few as here tell that from 1 in 100."""
    random = np.random.default_rng(count)
    found = sum(speed_states(np.exp(noise(random, count)).tolist()) is not None for _ in range(TRIES))
    assert found <= TRIES / 100


@pytest.mark.parametrize("noise", [gaussian, heavy_tailed, skewed])
@pytest.mark.parametrize("slow_share", [0.3, 0.7])
def test_two_states_that_last_are_recognised(noise: Noise, slow_share: float) -> None:
    random = np.random.default_rng(7)
    hits = tries = 0
    while tries < 100:
        states = sticky_states(random, 200, 0.95, slow_share)
        if not 0.15 < states.mean() < 0.85:
            continue
        tries += 1
        found = speed_states(np.exp(0.4 * noise(random, 200) + np.log(1.6) * states).tolist())
        right = found and abs(found.ratio - 1.6) < 0.08 and abs(found.slow_share - states.mean()) < 0.05
        hits += bool(right)
    assert hits >= 95


def test_groups_that_change_with_every_sample_are_no_states_of_the_unit() -> None:
    assert speed_states([1.0, 1.6] * 50) is None, "what alternates is the order of measuring"
    assert speed_states([1.0] * 50 + [1.6] * 50) is not None


def test_few_or_odd_samples_show_one_state() -> None:
    assert speed_states([]) is None
    assert speed_states([1.0] * 14 + [2.0] * 14) is None
    assert speed_states([1.0] * 100) is None
    assert speed_states([1.0] * 100 + [5.0] * 4) is None, "a few are outliers"
    assert speed_states([1.0, float("nan")] * 20) is None
    assert speed_states([0.0, 1.0] * 20) is None
