"""The quick search against a recorded exhaustive one, over all kernels of MobileNetV1 on PoCL."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recording import Recording
from tuner import space
from tuner.device_pool import pool_of_one
from tuner.journal import Journal
from tuner.search import LEVELS, SearchResult, search
from tuner.trial import Candidate
from tuner.trial_runner import TrialRunner

DATA = Path(__file__).parent / "data" / "mobilenet_v1.json.gz"
CLOSE = 1.03
SHARE = 0.15


@pytest.fixture
def recording() -> Recording:
    return Recording(DATA)


def replay(recording: Recording, level: str) -> SearchResult:
    runner = TrialRunner(pool_of_one(recording), Journal(None, "recorded"), LEVELS[level].budget_s)
    return search(recording.launches, recording.expand, runner, LEVELS[level])


def chosen(outcome: SearchResult) -> dict[str, Candidate]:
    return {each.launch.key: each.chosen for each in outcome.verdicts}


@pytest.mark.slow
def test_quick_search_is_within_3_percent_of_the_best_in_15_percent_of_the_time(recording: Recording) -> None:
    outcome = replay(recording, "quick")
    best_ns = recording.model_ns(recording.best)
    assert recording.model_ns(chosen(outcome)) <= CLOSE * best_ns
    assert sum(outcome.device_s.values()) <= SHARE * recording.exhaustive_s


def gaussian(random: np.random.Generator) -> float:
    """5 % of noise."""
    return math.exp(0.05 * random.normal())


def heavy_tailed(random: np.random.Generator) -> float:
    """10 % of noise, with outliers."""
    return math.exp(0.10 * random.standard_t(3) / math.sqrt(3))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [gaussian, heavy_tailed])
def test_noise_does_not_mislead_the_quick_search(noise: Callable[[np.random.Generator], float]) -> None:
    """Three searches on average; a single one may miss a gain of a heavy launch that hardly shows in the noise."""
    losses = []
    for seed in range(3):
        noisy = Recording(DATA, functools.partial(noise, np.random.default_rng(seed)))
        outcome = replay(noisy, "quick")
        losses.append(noisy.model_ns(chosen(outcome)) / noisy.model_ns(noisy.best))
        assert sum(outcome.device_s.values()) <= SHARE * noisy.exhaustive_s
    assert sum(losses) / len(losses) <= CLOSE and max(losses) <= 1.04


@pytest.mark.slow
def test_no_level_is_worse_than_the_default(recording: Recording) -> None:
    default = {each.key: space.default_candidate(each) for each in recording.launches}
    for level in ("quick", "normal"):
        assert recording.model_ns(chosen(replay(recording, level))) <= recording.model_ns(default)


def test_every_kernel_of_the_model_was_recorded(recording: Recording) -> None:
    kernels = {each.kernel.name for each in recording.launches}
    assert {"conv2d", "conv1x1", "depthwise", "fully_connected", "softmax"} <= kernels
    assert all(len(recording.samples[each.key]) >= 2 for each in recording.launches)
