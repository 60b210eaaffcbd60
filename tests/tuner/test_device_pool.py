"""Several units share one search: trials split, put on one scale, confirmed on a second unit; one may be lost."""

import dataclasses
import math
import threading
import time
from pathlib import Path

import pytest

from runtime.errors import DeviceLostError
from runtime.lowering.trials import TrialLaunch
from tests.tuner.simulated_device import LAUNCHES, TARGET, SimulatedDevice, true_time_ns
from tuner import space
from tuner.device_pool import DevicePool, PoolMember
from tuner.journal import Journal
from tuner.normalisation import NormalisedMeasure, ReferenceLaunch
from tuner.search import LEVELS, SearchResult, search
from tuner.trial import Candidate, Measure, Trial
from tuner.trial_runner import TrialRunner

pytestmark = pytest.mark.slow

FEW = LAUNCHES[4:6]


class SlowDevice:
    """A simulated unit that really takes a moment for each trial, and is by a factor slower than another."""

    def __init__(self, factor: float = 1.0, seed: int = 1, dies_after: float = math.inf) -> None:
        self._device, self._factor, self._left = SimulatedDevice(seed=seed), factor, dies_after
        self.trials = 0
        self.at_once = 0

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        self.at_once += 1
        assert self.at_once == 1, "a unit makes one trial at a time"
        time.sleep(0.001)
        self.at_once -= 1
        self._left -= 1
        if self._left < 0:
            raise DeviceLostError("the cable was pulled")
        self.trials += 1
        trial = self._device(launch, candidate, reps)
        return dataclasses.replace(trial, ns=tuple(ns * self._factor for ns in trial.ns))


def shared(
    devices: dict[str, Measure], launches: tuple[TrialLaunch, ...] = LAUNCHES
) -> tuple[SearchResult, DevicePool]:
    reference = ReferenceLaunch.of(launches)
    pool = DevicePool([PoolMember(name, NormalisedMeasure(device, reference)) for name, device in devices.items()])
    with Journal(None, "f") as journal:
        return search(
            launches, lambda each, n: space.candidate_costs(each, TARGET, n), TrialRunner(pool, journal), QUICK
        ), pool


QUICK = LEVELS["quick"]


def model_ns(outcome: SearchResult) -> float:
    return sum(true_time_ns(each.launch, each.chosen) * len(each.launch.uses) for each in outcome.verdicts)


def best_ns() -> float:
    every = ((one, space.candidate_costs(one, TARGET, 8)) for one in LAUNCHES)
    return sum(min(true_time_ns(one, each) for each in found) * len(one.uses) for one, found in every)


def test_units_of_different_speed_share_the_work_and_find_what_one_finds() -> None:
    devices = {"a": SlowDevice(), "b": SlowDevice(1.3, 2), "c": SlowDevice(0.8, 3)}
    outcome, _ = shared(dict(devices))
    total = sum(device.trials for device in devices.values())
    assert min(device.trials for device in devices.values()) > total / 20
    assert model_ns(outcome) < 1.15 * best_ns()
    won = [verdict.reason for verdict in outcome.verdicts if verdict.won]
    assert won
    assert all("confirmed on" in reason for reason in won)


def test_the_search_goes_on_when_one_unit_is_lost() -> None:
    lost = SlowDevice(dies_after=20)
    outcome, pool = shared({"a": lost, "b": SlowDevice()}, FEW)
    assert list(pool.lost) == ["a"]
    assert all(verdict.runs for verdict in outcome.verdicts)
    assert lost.trials == 20


class FatalDevice(SlowDevice):
    """A unit that one variant takes down and that does not come back."""

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        if candidate.variant.name == DEADLY:
            self._left = 0
        return super().__call__(launch, candidate, reps)


DEADLY = FEW[0].kernel.variants[5].name


def test_a_variant_that_takes_units_down_is_banned_after_the_second(tmp_path: Path) -> None:
    lost = 0
    for _ in range(3):
        reference = ReferenceLaunch.of(FEW)
        pool = DevicePool([PoolMember(name, NormalisedMeasure(FatalDevice(), reference)) for name in "abc"])
        with Journal(tmp_path / "journal", "f") as journal:
            outcome = search(
                FEW, lambda each, n: space.candidate_costs(each, TARGET, n), TrialRunner(pool, journal), QUICK
            )
        pool.close()
        assert all(verdict.chosen.variant.name != DEADLY for verdict in outcome.verdicts)
        lost += len(pool.lost)
    assert 1 <= lost <= 2


def test_the_loss_of_the_last_unit_ends_the_search() -> None:
    with pytest.raises(DeviceLostError, match="cable"):
        shared({"a": SlowDevice(dies_after=5), "b": SlowDevice(dies_after=9)}, FEW)


def test_a_gain_that_the_second_unit_does_not_confirm_keeps_the_default() -> None:
    class OneLikesIt(SlowDevice):
        """Variants with FMA are fast here, and slow on other units."""

        def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
            trial = super().__call__(launch, candidate, reps)
            factor = 0.5 if candidate.variant["FMA"] else 1.0
            return dataclasses.replace(trial, ns=tuple(ns * factor for ns in trial.ns))

    class OtherDoesNot(OneLikesIt):
        def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
            trial = super().__call__(launch, candidate, reps)
            factor = 20.0 if candidate.variant["FMA"] else 1.0
            return dataclasses.replace(trial, ns=tuple(ns * factor for ns in trial.ns))

    outcome, _ = shared({"a": OneLikesIt(), "b": OtherDoesNot()}, FEW)
    assert not [verdict for verdict in outcome.verdicts if verdict.chosen.variant["FMA"]]


def test_each_trial_names_the_unit_that_measured_it() -> None:
    pool = DevicePool([PoolMember("a", SimulatedDevice())])
    candidate = next(iter(space.candidate_costs(FEW[0], TARGET, 8)))
    assert pool.measure(FEW[0], candidate, 3).unit == "a"


def test_an_error_in_one_chain_ends_all_chains() -> None:
    pool = DevicePool([PoolMember("a", SimulatedDevice()), PoolMember("b", SimulatedDevice())])
    ran: list[int] = []

    def chain(number: int) -> None:
        ran.append(number)
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        pool.run_chains([lambda number=number: chain(number) for number in range(100)])  # type: ignore[misc]
    assert len(ran) < 100
    pool.run_chains([lambda: ran.append(-1)])
    assert ran[-1] == -1
    assert threading.active_count() < 20


def test_a_unit_may_join_while_the_search_is_on() -> None:
    late, pool = SlowDevice(), DevicePool([PoolMember("a", SlowDevice())], capacity=2)
    joined = threading.Timer(0.02, lambda: pool.join(PoolMember("late", late)))
    joined.start()
    with Journal(None, "f") as journal:
        search(LAUNCHES[:6], lambda each, n: space.candidate_costs(each, TARGET, n), TrialRunner(pool, journal), QUICK)
    pool.close()
    assert late.trials > 0
    assert not pool.join(PoolMember("too late", SlowDevice()))
