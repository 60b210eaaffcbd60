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
from tuner.device_pool import Crew, Member
from tuner.journal import Journal
from tuner.normalisation import Normalised, Standard
from tuner.search import LEVELS, Outcome, search
from tuner.trial import Candidate, Measure, Trial
from tuner.trial_runner import Lab

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


def shared(devices: dict[str, Measure], launches: tuple[TrialLaunch, ...] = LAUNCHES) -> tuple[Outcome, Crew]:
    standard = Standard.of(launches)
    crew = Crew([Member(name, Normalised(device, standard)) for name, device in devices.items()])
    with Journal(None, "f") as journal:
        return search(launches, lambda each, n: space.candidates(each, TARGET, n), Lab(crew, journal), QUICK), crew


QUICK = LEVELS["quick"]


def model_ns(outcome: Outcome) -> float:
    return sum(true_time_ns(each.launch, each.chosen) * len(each.launch.uses) for each in outcome.verdicts)


def best_ns() -> float:
    every = ((one, space.candidates(one, TARGET, 8)) for one in LAUNCHES)
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


def test_the_others_go_on_when_a_unit_is_lost() -> None:
    lost = SlowDevice(dies_after=20)
    outcome, crew = shared({"a": lost, "b": SlowDevice()}, FEW)
    assert list(crew.lost) == ["a"]
    assert all(verdict.runs for verdict in outcome.verdicts)
    assert lost.trials == 20


class Deadly(SlowDevice):
    """A unit that one variant takes down, for good."""

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        if candidate.variant.name == DEADLY:
            self._left = 0
        return super().__call__(launch, candidate, reps)


DEADLY = FEW[0].kernel.variants[5].name


def test_a_variant_that_takes_units_down_is_banned_after_the_second(tmp_path: Path) -> None:
    lost = 0
    for _ in range(3):
        standard = Standard.of(FEW)
        crew = Crew([Member(name, Normalised(Deadly(), standard)) for name in "abc"])
        with Journal(tmp_path / "journal", "f") as journal:
            outcome = search(FEW, lambda each, n: space.candidates(each, TARGET, n), Lab(crew, journal), QUICK)
        crew.dismiss()
        assert all(verdict.chosen.variant.name != DEADLY for verdict in outcome.verdicts)
        lost += len(crew.lost)
    assert 1 <= lost <= 2


def test_the_loss_of_the_last_unit_ends_the_search() -> None:
    with pytest.raises(DeviceLostError, match="cable"):
        shared({"a": SlowDevice(dies_after=5), "b": SlowDevice(dies_after=9)}, FEW)


def test_a_gain_that_the_second_unit_does_not_see_is_no_gain() -> None:
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


def test_trials_say_which_unit_made_them() -> None:
    crew = Crew([Member("a", SimulatedDevice())])
    candidate = next(iter(space.candidates(FEW[0], TARGET, 8)))
    assert crew.measure(FEW[0], candidate, 3).unit == "a"


def test_what_one_chain_raises_ends_all() -> None:
    crew = Crew([Member("a", SimulatedDevice()), Member("b", SimulatedDevice())])
    ran: list[int] = []

    def chain(number: int) -> None:
        ran.append(number)
        if number == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        crew.each([lambda number=number: chain(number) for number in range(100)])  # type: ignore[misc]
    assert len(ran) < 100
    crew.each([lambda: ran.append(-1)])
    assert ran[-1] == -1
    assert threading.active_count() < 20


def test_a_unit_may_join_while_the_search_is_on() -> None:
    late, crew = SlowDevice(), Crew([Member("a", SlowDevice())], capacity=2)
    joined = threading.Timer(0.02, lambda: crew.join(Member("late", late)))
    joined.start()
    with Journal(None, "f") as journal:
        search(LAUNCHES[:6], lambda each, n: space.candidates(each, TARGET, n), Lab(crew, journal), QUICK)
    crew.dismiss()
    assert late.trials > 0
    assert not crew.join(Member("too late", SlowDevice()))
