"""The quick search against recorded exhaustive ones: MobileNetV1 on PoCL, SqueezeNet on Intel's driver."""

import dataclasses
import functools
import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from runtime.lowering.trials import TrialLaunch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks, PeakFigure
from tests.tuner.recording import Recording
from tuner import space
from tuner.budget import Budget
from tuner.device_pool import pool_of_one
from tuner.journal import Journal
from tuner.search import LEVELS, SearchResult, search
from tuner.trial import Candidate
from tuner.trial_runner import TrialRunner

DATA = Path(__file__).parent / "data" / "mobilenet_v1.json.gz"
SLOW_TO_BUILD = DATA.with_name("squeezenet_v11_intel.json.gz")  # a program takes 0.4 s, in whatever local size
CLOSE = 1.03
MISREAD = (2.0, 1.3, 1.1, 1.0, 0.98, 0.97, 0.9, 0.8, 0.7, 0.5)
SHARE = 0.15


@pytest.fixture
def recording() -> Recording:
    return Recording(DATA)


def replay(recording: Recording, level: str, peaks: MeasuredPeaks = NOT_MEASURED) -> SearchResult:
    runner = TrialRunner(pool_of_one(recording), Journal(None, "recorded"), Budget(LEVELS[level].budget_s))
    return search(recording.launches, recording.expand, runner, LEVELS[level], peaks=peaks)


def chosen(outcome: SearchResult) -> dict[str, Candidate]:
    return {each.launch.key: each.chosen for each in outcome.verdicts}


@pytest.mark.slow
def test_quick_search_is_within_3_percent_of_the_best_in_15_percent_of_the_time(recording: Recording) -> None:
    outcome = replay(recording, "quick")
    best_ns = recording.model_ns(recording.best)
    assert recording.model_ns(chosen(outcome)) <= CLOSE * best_ns
    assert sum(outcome.device_s.values()) <= SHARE * recording.exhaustive_s


@pytest.mark.slow
def test_quick_search_finds_in_its_budget_what_is_fast_where_builds_take_long() -> None:
    slow = Recording(SLOW_TO_BUILD)
    default = {each.key: space.default_candidate(each) for each in slow.launches}
    runner = TrialRunner(pool_of_one(slow), Journal(None, "recorded"), Budget(LEVELS["quick"].budget_s))
    outcome = search(slow.launches, slow.expand, runner, LEVELS["quick"])
    assert slow.model_ns(default) > 1.3 * slow.model_ns(slow.best)
    assert slow.model_ns(chosen(outcome)) < 1.12 * slow.model_ns(slow.best)
    assert sum(outcome.device_s.values()) < 1.1 * LEVELS["quick"].budget_s


def with_chosen_defaults(recording: Recording, seed: int) -> None:
    """A driver that nobody chose defaults for: one variant of each kernel, by chance, is it wherever it runs."""
    chance = random.Random(seed)
    order = {
        each.kernel.name: chance.sample(each.kernel.variants, len(each.kernel.variants)) for each in recording.launches
    }

    def with_default(launch: TrialLaunch) -> TrialLaunch:
        assert launch.kernel.local_size
        for variant in order[launch.kernel.name]:
            size = space.three_dimensional(launch.kernel.local_size(launch.dims, variant, recording.target))
            if recording.samples[launch.key].get(Candidate(variant, size)):
                return dataclasses.replace(launch, variant=variant, local_size=size)
        return launch

    recording.launches = tuple(map(with_default, recording.launches))


@pytest.mark.slow
@pytest.mark.parametrize(("data", "budget_s", "behind"), [(DATA, 9.0, 1.23), (SLOW_TO_BUILD, 10.0, 1.3)])
def test_half_the_time_of_a_quick_search_makes_good_what_bad_defaults_lose(
    data: Path, budget_s: float, behind: float
) -> None:
    lost, found = 0.0, 0.0
    for seed in range(6):
        bad = Recording(data)
        with_chosen_defaults(bad, seed)
        runner = TrialRunner(pool_of_one(bad), Journal(None, "recorded"), Budget(budget_s))
        outcome = search(bad.launches, bad.expand, runner, LEVELS["quick"])
        default = {each.key: space.default_candidate(each) for each in bad.launches}
        lost += math.log(bad.model_ns(default) / bad.model_ns(bad.best))
        found += math.log(bad.model_ns(chosen(outcome)) / bad.model_ns(bad.best))
    assert math.exp(lost / 6) > 1.5, "else nothing is shown"
    assert math.exp(found / 6) < behind


def with_best_defaults(recording: Recording) -> None:
    """A driver for which the kernels' defaults were chosen, as nearly as can be."""
    best = recording.best
    recording.launches = tuple(
        dataclasses.replace(each, variant=best[each.key].variant, local_size=best[each.key].local_size)
        for each in recording.launches
    )


@pytest.mark.slow
@pytest.mark.parametrize("data", [SLOW_TO_BUILD, SLOW_TO_BUILD.with_name("squeezenet_v11_pypi.json.gz")])
def test_where_nothing_is_left_to_gain_the_search_ends_early_and_elsewhere_it_finds_the_same(data: Path) -> None:
    patient = dataclasses.replace(LEVELS["quick"], patience=math.inf)
    took_s, found = list[float](), list[float]()
    for prepare in (with_best_defaults, lambda _: None):
        for level in (patient, LEVELS["quick"].of_chosen_defaults):
            recording = Recording(data)
            prepare(recording)
            runner = TrialRunner(pool_of_one(recording), Journal(None, "recorded"), Budget(level.budget_s, grows=True))
            outcome = search(recording.launches, recording.expand, runner, level)
            took_s.append(sum(outcome.device_s.values()))
            found.append(recording.model_ns(chosen(outcome)))
    assert found[1] <= 1.001 * found[0] and found[3] < 1.005 * found[2]
    assert took_s[1] < 0.5 * took_s[0]


@pytest.mark.slow
@pytest.mark.parametrize("data", [DATA, SLOW_TO_BUILD, SLOW_TO_BUILD.with_name("squeezenet_v11_pypi.json.gz")])
def test_a_peak_does_no_harm_whatever_it_was_read_as(data: Path) -> None:
    """Too high or too low, as in a slow state of the unit; most is at stake just at the fastest launches."""
    recording = Recording(data)
    # The most that any recorded launch does: no peak of that device can be lower.
    top = max(each.macs / recording.median_ns(each, recording.best[each.key]) for each in recording.launches)
    misread = (MeasuredPeaks({PeakFigure.MACS: 1e6 * factor * top}) for factor in MISREAD)
    plain = recording.model_ns(chosen(replay(Recording(data), "quick")))
    assert all(recording.model_ns(chosen(replay(Recording(data), "quick", peaks))) < 1.01 * plain for peaks in misread)


def gaussian(chance: np.random.Generator) -> float:
    """5 % of noise."""
    return math.exp(0.05 * chance.normal())


def heavy_tailed(chance: np.random.Generator) -> float:
    """10 % of noise, with outliers."""
    return math.exp(0.10 * chance.standard_t(3) / math.sqrt(3))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [gaussian, heavy_tailed])
def test_noise_does_not_mislead_the_quick_search(noise: Callable[[np.random.Generator], float]) -> None:
    """Six searches on average; a single one may miss a gain of a heavy launch that hardly shows in the noise."""
    losses = []
    for seed in range(6):
        noisy = Recording(DATA, functools.partial(noise, np.random.default_rng(seed)))
        outcome = replay(noisy, "quick")
        losses.append(noisy.model_ns(chosen(outcome)) / noisy.model_ns(noisy.best))
        assert sum(outcome.device_s.values()) <= SHARE * noisy.exhaustive_s
    assert sum(losses) / len(losses) <= CLOSE and max(losses) <= 1.05


@pytest.mark.slow
def test_no_level_is_worse_than_the_default(recording: Recording) -> None:
    default = {each.key: space.default_candidate(each) for each in recording.launches}
    for level in ("quick", "normal"):
        assert recording.model_ns(chosen(replay(recording, level))) <= recording.model_ns(default)


def test_every_kernel_of_the_model_was_recorded(recording: Recording) -> None:
    kernels = {each.kernel.name for each in recording.launches}
    assert {"conv2d", "conv1x1", "depthwise", "fully_connected", "softmax"} <= kernels
    assert all(len(recording.samples[each.key]) >= 2 for each in recording.launches)
