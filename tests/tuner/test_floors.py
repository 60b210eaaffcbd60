"""The least times of launches by a device's peaks, and how a launch disproves a peak that was read too low."""

from __future__ import annotations

import dataclasses
import math

import pytest

from runtime.kernels.spec import MemoryType
from runtime.lowering.trials import TrialLaunch
from runtime.peaks import MeasuredPeaks, PeakFigure
from runtime.types import Precision
from tests.tuner.simulated_device import CONV, LAUNCHES, TARGET, SimulatedDevice, launch
from tuner import space
from tuner.budget import Budget
from tuner.device_pool import pool_of_one
from tuner.floors import Floors
from tuner.journal import Journal
from tuner.search import LEVELS, search
from tuner.trial import Candidate, Trial
from tuner.trial_runner import TrialRunner

MAC_NS = 1e-3  # at 1e9 multiply-adds per ms
PEAKS = MeasuredPeaks({PeakFigure.MACS: 1e9, PeakFigure.BUFFER_BYTES: 1e6})


def of(macs: int = 0, moved: int = 0, precision: Precision = Precision.FP32) -> TrialLaunch:
    return dataclasses.replace(launch(CONV, 1, 1, 1), macs=macs, bytes=moved, precision=precision)


def test_the_longer_of_computing_and_moving_is_the_least() -> None:
    floors = Floors(PEAKS)
    assert floors.least_ns(of(macs=10**6)) == pytest.approx(10**6 * MAC_NS)
    assert floors.least_ns(of(macs=10**6, moved=4096)) == pytest.approx(4096.0)
    assert floors.least_ns(of(moved=4096, precision=Precision.FP16_STORAGE)) == pytest.approx(2048.0)


def test_what_is_not_known_allows_any_time() -> None:
    on_images = dataclasses.replace(CONV, memory=MemoryType.IMAGE)
    assert Floors().least_ns(of(macs=10**9, moved=10**9)) == 0.0
    assert Floors(PEAKS).least_ns(dataclasses.replace(of(moved=4096), kernel=on_images)) == 0.0
    assert Floors(PEAKS).least_ns(of(macs=10**9, precision=Precision.FP16)) == 0.0, "half arithmetic has its own peak"


def test_a_peak_that_a_launch_beats_counts_for_nothing() -> None:
    floors = Floors(PEAKS)
    floors.note(of(macs=10**6, moved=500), 995.0)
    assert floors.least_ns(of(macs=10**6)) == pytest.approx(1000.0), "half a per cent may be chance"
    floors.note(of(macs=10**6, moved=500), 980.0)
    assert floors.least_ns(of(macs=10**6)) == 0.0
    assert floors.least_ns(of(moved=500)) == pytest.approx(500.0), "the bytes of that launch did not beat theirs"
    floors.note(of(macs=10**6), math.inf)


def conv_is_at_its_peak(each: TrialLaunch, candidate: Candidate, trial: Trial) -> Trial:
    """By default 1x1 convolutions do as many multiply-adds as the device can; everything else is slower."""
    if each.kernel is not CONV:
        return trial
    ns = each.macs * MAC_NS * (1.0 if candidate == space.default_candidate(each) else 1.5)
    return dataclasses.replace(trial, ns=(ns,) * len(trial.ns))


def conv_trials(peaks: MeasuredPeaks, level: str) -> int:
    """How many trials of 1x1 convolutions a search makes."""
    launches = [dataclasses.replace(each, macs=math.prod(each.dims.values())) for each in LAUNCHES]
    device = SimulatedDevice(noise=0.0, spoil=conv_is_at_its_peak)
    runner = TrialRunner(pool_of_one(device), Journal(None, "x"), Budget(30.0))
    outcome = search(
        launches,
        lambda each, multiple: space.candidate_costs(each, TARGET, multiple),
        runner,
        LEVELS[level],
        peaks=peaks,
    )
    return sum(count for key, count in outcome.trials.items() if key.startswith(CONV.name))


@pytest.mark.slow
def test_a_search_leaves_a_kernel_whose_launches_are_at_the_peak() -> None:
    by_default = sum(each.kernel is CONV for each in LAUNCHES)
    assert conv_trials(PEAKS, "quick") == by_default
    assert conv_trials(MeasuredPeaks(), "quick") > 2 * by_default
    too_low = MeasuredPeaks({PeakFigure.MACS: 0.9e9})
    assert conv_trials(too_low, "quick") == conv_trials(MeasuredPeaks(), "quick"), "these launches disprove it"


@pytest.mark.slow
def test_an_exhaustive_search_stops_at_no_peak() -> None:
    assert conv_trials(PEAKS, "exhaustive") == conv_trials(MeasuredPeaks(), "exhaustive")
