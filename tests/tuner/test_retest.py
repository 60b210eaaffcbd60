"""The re-test among candidates that are all the same: none may win by chance."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from runtime.lowering.trials import TrialLaunch
from runtime.statistics.ratios import Ratio, true_discoveries
from tests.tuner.simulated_device import CONV, TARGET, launch
from tuner import space
from tuner.budget import Budget
from tuner.device_pool import pool_of_one
from tuner.journal import Journal
from tuner.retest import Retest, RunningRetest
from tuner.search import LEVELS, search
from tuner.surroundings import Surroundings
from tuner.trial import Candidate, Trial, TrialStatus
from tuner.trial_runner import TrialRunner
from tuner.verdict import LaunchVerdict, default_kept, without_false_discoveries

LAUNCH = launch(CONV, 784, 256, 256)
DEFAULT = space.default_candidate(LAUNCH)
OTHERS = [candidate for candidate in space.candidate_costs(LAUNCH, TARGET, 8) if candidate != DEFAULT][:8]
TRIES = 300

Noise = Callable[[np.random.Generator, int], np.ndarray]


def gaussian(random: np.random.Generator, count: int) -> np.ndarray:
    return 0.05 * random.normal(size=count)


def heavy_tailed(random: np.random.Generator, count: int) -> np.ndarray:
    return 0.10 * random.standard_t(3, count)


def disturbed_rounds(random: np.random.Generator, count: int) -> np.ndarray:
    """Now and then all repetitions of a trial are slow."""
    return 0.3 * float(random.random() < 0.1) + 0.02 * random.normal(size=count)


def decided(noise: Noise, seed: int, settings: Retest, gain: float = 0.0) -> LaunchVerdict:
    random = np.random.default_rng(seed)
    process = math.exp(0.02 * random.normal())

    def measure(_: object, candidate: Candidate, reps: int) -> Trial:
        speed = 1.0 - gain if candidate == OTHERS[0] else 1.0
        ns = tuple(1e5 * speed * process * np.exp(noise(random, reps)))
        return Trial(TrialStatus.OK, ns, 0.001, 0.0, 0.0, 1.0)

    runner = TrialRunner(pool_of_one(measure), Journal(None, "f"))
    return settings.decide(LAUNCH, OTHERS[: settings.finalists], 1e5, runner)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "noise"), [("quick", gaussian), ("exhaustive", heavy_tailed), ("quick", disturbed_rounds)]
)
def test_hardly_a_launch_is_won_by_chance(noise: Noise, level: str) -> None:
    """Of 1,500 tries 0 to 0.7 % were; so few tries as here tell 0.7 % from 3 %."""
    won = sum(decided(noise, seed, LEVELS[level].retest).won for seed in range(TRIES))
    assert won <= TRIES / 60


@pytest.mark.slow
def test_a_gain_of_five_percent_is_found_in_two_percent_of_noise() -> None:
    def calm(random: np.random.Generator, count: int) -> np.ndarray:
        return 0.02 * random.normal(size=count)

    verdicts = [decided(calm, seed, LEVELS["quick"].retest, gain=0.05) for seed in range(20)]
    assert sum(verdict.chosen == OTHERS[0] for verdict in verdicts) >= 18


@pytest.mark.parametrize(("gain", "leaves"), [(0.015, False), (0.06, True)])
def test_a_default_that_was_chosen_here_is_left_for_a_plain_gain_only(gain: float, leaves: bool) -> None:
    def calm(random: np.random.Generator, count: int) -> np.ndarray:
        return 0.002 * random.normal(size=count)

    elsewhere, here = (
        decided(calm, 0, level.retest, gain) for level in (LEVELS["quick"], LEVELS["quick"].of_chosen_defaults)
    )
    assert (elsewhere.won, here.won) == (True, leaves)
    assert leaves or here.reason.endswith("too little to leave a default that was chosen here")


def two_state_unit(gain: float, random: np.random.Generator) -> Callable[[object, Candidate, int], Trial]:
    """A unit that takes 1.6 times as long for a while, and times the default in turns with a candidate."""
    slow = False

    def measure(_: object, candidate: Candidate, reps: int) -> Trial:
        nonlocal slow
        slow = slow if random.random() < 0.8 else random.random() < 0.5
        state_ns = 1.6e5 if slow else 1e5
        speed = 1.0 - gain if candidate == OTHERS[0] else 1.0
        ns, own_ns = (tuple(state_ns * np.exp(0.02 * random.normal(size=reps))) for _ in range(2))
        beside = own_ns if candidate != DEFAULT else ()
        return Trial(TrialStatus.OK, tuple(speed * time for time in ns), 0.001, 0.0, 0.0, 1.0, own_ns=beside)

    return measure


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "least", "most"), [(0.05, 18, 20), (0.0, 0, 1)])
def test_states_are_compared_like_with_like(gain: float, least: int, most: int) -> None:
    """In pairs a gain of 5 % is seen through states that differ by 60 %, and none is seen where there is none."""
    won = 0
    for seed in range(20):
        runner = TrialRunner(pool_of_one(two_state_unit(gain, np.random.default_rng(seed))), Journal(None, "f"))
        runner.trial(LAUNCH, DEFAULT, 3)
        verdict = LEVELS["quick"].retest.decide(LAUNCH, OTHERS[:3], 1e5, runner)
        won += verdict.won
        if verdict.won and gain:
            assert verdict.tuned_ns / verdict.default_ns == pytest.approx(0.95, abs=0.02)
    assert least <= won <= most


def test_a_search_says_that_the_unit_has_two_speeds() -> None:
    runner = TrialRunner(pool_of_one(two_state_unit(0.0, np.random.default_rng(5))), Journal(None, "f"))
    assert runner.states is None
    for index in range(200):
        runner.trial(LAUNCH, DEFAULT if index == 0 else OTHERS[1], 5, fresh=True)
    assert runner.states
    assert runner.states.ratio == pytest.approx(1.6, abs=0.05)


def test_of_many_findings_those_are_believed_that_are_not_expected_by_chance() -> None:
    assert true_discoveries([0.001, 0.9, 0.004, 0.5, 1.0], 0.05) == [True, False, True, False, False]
    assert true_discoveries([0.004] + [1.0] * 30, 0.05) == [False] * 31, "one of 31 is that good in one case of eight"
    assert true_discoveries([], 0.05) == []


def test_launches_that_were_not_tested_make_no_winner_doubtful() -> None:
    gain = Ratio(0.96, 0.94, 0.98)
    winner = LaunchVerdict(LAUNCH, OTHERS[0], 1e5, 0.96e5, "gains 4 %", gain, chance=0.002)
    others = [launch(CONV, 100 + index, 1, 1) for index in range(60)]
    untested = [default_kept(each, 1e5, "the budget was spent") for each in others]
    assert without_false_discoveries([winner, *untested])[0].won
    tested = [default_kept(each, 1e5, "within the noise", gain) for each in others]
    assert not without_false_discoveries([winner, *tested])[0].won


@pytest.mark.slow
def test_every_launch_has_its_first_look_before_one_in_doubt_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    look = RunningRetest.look

    def recorded(retest: RunningRetest) -> None:
        looked.append(retest)
        look(retest)

    monkeypatch.setattr(RunningRetest, "look", recorded)
    random = np.random.default_rng(7)

    def measure(each: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """All candidates but the default are 3 % faster, in 8 % of noise."""
        speed = 1.0 if candidate == space.default_candidate(each) else 0.97
        return Trial(TrialStatus.OK, tuple(1e5 * speed * np.exp(0.08 * random.normal(size=reps))), 0.01, 0.0, 0.0, 1.0)

    launches = [launch(CONV, pixels, 64, 64) for pixels in (49, 196, 784, 3136, 12544)]
    runner = TrialRunner(pool_of_one(measure), Journal(None, "f"), Budget(10.0))
    search(launches, lambda each, multiple: space.candidate_costs(each, TARGET, multiple), runner, LEVELS["quick"])
    first = list(dict.fromkeys(looked))
    assert len(looked) > len(first) > 1, "some are in doubt after their first look"
    assert looked[: len(first)] == first


def test_repetitions_count_what_runs_before_each() -> None:
    copy = dataclasses.replace(launch(CONV, 100, 1, 1), poison=0, bytes=5_000_000)
    surroundings = Surroundings([LAUNCH, copy])

    def measure(_: object, candidate: Candidate, reps: int) -> Trial:
        return Trial(TrialStatus.OK, (4e5,) * reps, 0.001, 0.0, 0.0, 1.0)

    runner = TrialRunner(pool_of_one(measure), Journal(None, "f"), surroundings=surroundings)
    assert runner.repetitions(LAUNCH, 1e5, 2e6, 3, 30) == 20
    runner.trial(copy, space.default_candidate(copy), 3)
    assert runner.repetitions(LAUNCH, 1e5, 2e6, 3, 30) == 4
    assert runner.repetitions(LAUNCH, 1e7, 2e6, 3, 30) == 3
    assert runner.repetitions(LAUNCH, math.inf, 2e6, 3, 30) == 3
    assert runner.repetitions(LAUNCH, math.nan, 2e6, 3, 30) == 3, "the default gave no right result"
