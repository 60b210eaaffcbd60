import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runtime.errors import DeviceLostError
from runtime.lowering.trials import TrialLaunch, Use
from tests.tuner.simulated_device import CONV, DEPTHWISE, LAUNCHES, TARGET, SimulatedDevice, launch, true_time_ns
from tuner import space
from tuner.budget import Budget
from tuner.coverage import LEAST_TRIALS, model_weights
from tuner.device_pool import pool_of_one
from tuner.journal import Journal
from tuner.progress import Progress
from tuner.search import LEVELS, SearchResult, search
from tuner.trial import Candidate, Measure, Trial, TrialStatus
from tuner.trial_runner import TrialRunner

pytestmark = pytest.mark.slow

FEW = LAUNCHES[4:6]
SPENT = "default kept: the budget was spent"


def expand(each: TrialLaunch, multiple: int) -> Mapping[Candidate, float]:
    return space.candidate_costs(each, TARGET, multiple)


def tune(
    measure: Measure,
    launches: tuple[TrialLaunch, ...] = FEW,
    level: str = "quick",
    budget_s: float = math.inf,
    path: Path | None = None,
) -> SearchResult:
    with Journal(path, "f") as journal:
        return search(launches, expand, TrialRunner(pool_of_one(measure), journal, Budget(budget_s)), LEVELS[level])


def spoiled(bad: Callable[[Candidate], bool], **changes: object) -> SimulatedDevice:
    """A device on which some candidates would be ten times faster, were it not for the changes."""

    def spoil(_: TrialLaunch, candidate: Candidate, trial: Trial) -> Trial:
        if not bad(candidate):
            return trial
        fast = tuple(ns / 10 for ns in trial.ns)
        return dataclasses.replace(trial, **{"ns": fast, **changes})  # type: ignore[arg-type]

    return SimulatedDevice(spoil=spoil)


def model_ns(outcome: SearchResult) -> float:
    return sum(true_time_ns(each.launch, each.chosen) * len(each.launch.uses) for each in outcome.verdicts)


def best_ns(launches: tuple[TrialLaunch, ...]) -> float:
    return sum(min(true_time_ns(one, each) for each in expand(one, 8)) * len(one.uses) for one in launches)


@pytest.mark.parametrize(("level", "worst"), [("quick", 1.09), pytest.param("normal", 1.03, marks=pytest.mark.slow)])
def test_every_level_finds_times_near_the_best(level: str, worst: float) -> None:
    outcomes = [tune(SimulatedDevice(seed=seed), LAUNCHES, level) for seed in range(4)]
    assert sum(map(model_ns, outcomes)) / 4 < worst * best_ns(LAUNCHES)
    assert all(each.runs for outcome in outcomes for each in outcome.verdicts)


def disturbed_defaults(slow: int) -> Measure:
    """A device that times in pairs, and takes 1.8 times as long for its first trials."""
    device, trials = SimulatedDevice(), 0

    def measure(launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        nonlocal trials
        trials += 1
        slowness = 1.8 if trials <= slow else 1.0
        trial, own = (device(launch, each, reps) for each in (candidate, space.default_candidate(launch)))
        ns, own_ns = (tuple(slowness * ns for ns in times) for times in (trial.ns, own.ns))
        is_default = candidate == space.default_candidate(launch)
        return dataclasses.replace(trial, ns=ns, own_ns=() if is_default else own_ns)

    return measure


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_what_disturbs_a_default_when_it_is_first_timed_weighs_no_launch(slow: int) -> None:
    outcome = tune(disturbed_defaults(slow), FEW)
    for verdict in outcome.verdicts:
        true_ns = true_time_ns(verdict.launch, space.default_candidate(verdict.launch))
        assert verdict.won and verdict.default_ns == pytest.approx(true_ns, rel=0.06)
        assert verdict.tuned_ns == pytest.approx(true_time_ns(verdict.launch, verdict.chosen), rel=0.06)


def test_exhaustive_tries_every_candidate() -> None:
    only = (launch(CONV, 30, 16, 16),)
    device = SimulatedDevice()
    outcome = tune(device, only, "exhaustive")
    assert {candidate for _, candidate in device.calls} == {str(each) for each in expand(only[0], 8)}
    assert model_ns(outcome) <= 1.02 * best_ns(only)


def test_default_is_kept_when_nothing_beats_the_noise() -> None:
    def measure(one: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        return dataclasses.replace(device(one, candidate, reps), ns=device(one, space.default_candidate(one), reps).ns)

    device = SimulatedDevice(noise=0.05)
    verdicts = tune(measure).verdicts
    assert not any(each.won for each in verdicts)
    assert all("default kept" in each.reason and each.tuned_ns == each.default_ns for each in verdicts)


def test_a_winners_reason_states_its_gain() -> None:
    verdict = tune(SimulatedDevice()).verdicts[0]
    assert verdict.won
    assert verdict.ratio is not None
    assert verdict.ratio.is_faster
    assert verdict.tuned_ns < verdict.default_ns
    assert " % (" in verdict.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"max_abs_error": 1.0},
        {"max_abs_error": math.nan},
        {"nan_count": 3},
        {"max_abs_error": None},
        {"ns": (math.nan,) * 5},
        {"ns": (0.0,) * 5},
        {"ns": (-4.0,) * 5},
        {"status": TrialStatus.FAILED},
        {"status": TrialStatus.HANG},
        {"status": TrialStatus.CRASH},
    ],
)
def test_bad_candidates_never_win(changes: dict[str, object]) -> None:
    outcome = tune(spoiled(lambda each: each.variant["PIXELS"] == 4, **changes))
    assert all(each.chosen.variant["PIXELS"] != 4 for each in outcome.verdicts)
    assert all(each.won for each in outcome.verdicts)
    assert sum(count for status, count in outcome.statuses.items() if status != TrialStatus.OK) > 0


def test_a_default_with_wrong_output_loses_to_a_candidate_that_runs() -> None:
    default = space.default_candidate(FEW[0])
    outcome = tune(spoiled(lambda each: each == default, max_abs_error=9.0))
    assert all(each.won and math.isnan(each.default_ns) and each.tuned_ns > 0 for each in outcome.verdicts)


def test_the_verdict_says_when_no_candidate_runs() -> None:
    outcome = tune(spoiled(lambda each: True, status=TrialStatus.FAILED))
    assert not any(each.won or each.runs for each in outcome.verdicts)


def test_candidate_that_fails_in_the_retest_does_not_win() -> None:
    seen: set[str] = set()

    def fails_later(_: TrialLaunch, candidate: Candidate, trial: Trial) -> Trial:
        again = str(candidate) in seen and candidate != space.default_candidate(FEW[0])
        seen.add(str(candidate))
        return dataclasses.replace(trial, max_abs_error=5.0) if again else trial

    assert not any(each.won for each in tune(SimulatedDevice(spoil=fails_later), FEW[:1]).verdicts)


def test_no_launches() -> None:
    outcome = tune(SimulatedDevice(), ())
    assert outcome.verdicts == ()


def test_budget_zero_measures_nothing() -> None:
    device = SimulatedDevice()
    outcome = tune(device, budget_s=0.0)
    assert not device.calls
    assert outcome.budget_spent
    assert all(each.reason.startswith(SPENT) for each in outcome.verdicts)


@pytest.mark.parametrize("budget_s", [0.3, 1.0, 3.0, 8.0])
def test_budget_is_kept_and_more_of_it_is_no_worse(budget_s: float) -> None:
    outcome = tune(SimulatedDevice(), LAUNCHES, budget_s=budget_s)
    slowest_trial_s = 0.5
    assert sum(outcome.device_s.values()) <= budget_s + slowest_trial_s
    default = sum(true_time_ns(one, space.default_candidate(one)) * len(one.uses) for one in LAUNCHES)
    assert model_ns(outcome) <= default


def test_the_budget_is_spent_on_the_launches_that_take_most_time() -> None:
    heavy, light = launch(CONV, 3136, 128, 128, uses=9), launch(DEPTHWISE, 49, 9, 32)
    outcome = tune(SimulatedDevice(), (light, heavy), budget_s=6.0)
    assert outcome.trials[heavy.key] > 2 * outcome.trials[light.key]


def test_crash_costs_one_respawn_for_each_variant_size_and_is_remembered(tmp_path: Path) -> None:
    device = spoiled(lambda each: each.variant["BLOCK"] == 16, status=TrialStatus.CRASH)
    path = tmp_path / "journal.jsonl"
    tune(device, path=path)
    crashes = [candidate for _, candidate in device.calls.elements() if "BLOCK16" in candidate]
    assert len(crashes) == 1, "the others share an option with it that no good one has"
    again = spoiled(lambda each: each.variant["BLOCK"] == 16, status=TrialStatus.CRASH)
    tune(again, path=path)
    assert not any(pair in device.calls for pair in again.calls if "BLOCK16" in pair[1])


class Interrupting:
    """Measures so many candidates, then is interrupted or loses the unit."""

    def __init__(self, after: int, error: type[BaseException]) -> None:
        self.device = SimulatedDevice()
        self._left, self._error = after, error

    def __call__(self, one: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        self._left -= 1
        if self._left < 0:
            raise self._error("gone")
        return self.device(one, candidate, reps)


@pytest.mark.parametrize("error", [KeyboardInterrupt, DeviceLostError])
def test_interrupted_search_resumes(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "journal.jsonl"
    first = Interrupting(25, error)
    with pytest.raises(error):
        tune(first, path=path)
    second = SimulatedDevice()
    outcome = tune(second, path=path)
    explored = {pair for pair, count in second.calls.items() if count == 1}
    assert not explored & set(first.device.calls), "what was measured is not explored again"
    assert outcome.verdicts[0].won
    third = SimulatedDevice()
    tune(third, path=path)
    assert third.calls.total() < 200, "only the re-test is left"


def test_journaled_trials_of_other_launches_of_a_kernel_guide_the_search(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    tune(SimulatedDevice(), path=path)
    with Journal(path, "f") as journal:
        new = launch(CONV, 400, 96, 96)
        device = SimulatedDevice()
        search((new,), expand, TrialRunner(pool_of_one(device), journal), LEVELS["quick"])
    first = [candidate for _, candidate in device.calls][1]
    assert first.startswith("BLOCK16_PIXELS4_FMA0"), "the family's best variant comes first"


def test_exhaustive_search_tries_variants_that_are_suspected_to_crash() -> None:
    device = spoiled(lambda each: each.variant == CONV.variants[-1], status=TrialStatus.CRASH)
    only = (launch(CONV, 30, 16, 16),)
    tune(device, only, "exhaustive")
    tried = {candidate.partition("@")[0] for _, candidate in device.calls}
    assert tried == {variant.name for variant in CONV.variants}


def test_the_kernels_own_work_group_limit_is_obeyed() -> None:
    def limited(_: TrialLaunch, candidate: Candidate, trial: Trial) -> Trial:
        too_large = math.prod(candidate.local_size) > 32
        status = TrialStatus.FAILED if too_large else TrialStatus.OK
        return dataclasses.replace(trial, status=status, max_work_group_size=32)

    device = SimulatedDevice(spoil=limited)
    outcome = tune(device, LAUNCHES[:6])
    variants = len(CONV.variants)
    assert outcome.statuses.get(TrialStatus.FAILED, 0) <= variants * 6
    assert all(math.prod(each.chosen.local_size) <= 32 for each in outcome.verdicts)


def test_reported_progress_grows_until_all_planned_work_is_done() -> None:
    seen: list[Progress] = []
    with Journal(None, "f") as journal:
        search(FEW, expand, TrialRunner(pool_of_one(SimulatedDevice()), journal), LEVELS["quick"], seen.append)
    for values in ([each.done for each in seen], [each.device_s for each in seen]):
        assert values == sorted(values)
    assert seen[-1].done == pytest.approx(seen[-1].planned)
    assert seen[-1].share == pytest.approx(1.0)
    assert seen[-1].trials > 0


@pytest.mark.parametrize(("device_s", "budget_s", "share"), [(1, math.inf, 0.5), (3, 4, 0.75), (9, 4, 1), (0, 0, 1)])
def test_the_share_done_follows_work_or_budget_whichever_is_further(
    device_s: float, budget_s: float, share: float
) -> None:
    assert Progress(5, 10, device_s, budget_s, 7, "conv").share == share


def test_a_budget_that_may_grow_covers_ten_trials_of_each_launch_of_weight() -> None:
    """Where a program takes 2 s to build, as on a device on which a level's own time is over before a trial."""

    def slow(each: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        return dataclasses.replace(device(each, candidate, reps), device_s=2.0, build_s=2.0)

    device = SimulatedDevice()
    outcomes = {}
    for grows in (False, True):
        with Journal(None, "f") as journal:
            runner = TrialRunner(pool_of_one(slow), journal, Budget(5.0, grows=grows))
            outcomes[grows] = search(FEW, expand, runner, LEVELS["quick"])
    assert sum(outcomes[False].tried.values()) <= 1
    assert outcomes[False].needed_s >= LEAST_TRIALS * 2.0
    assert sum(outcomes[True].trials.values()) >= LEAST_TRIALS * len(FEW)
    assert sum(outcomes[True].device_s.values()) <= outcomes[True].needed_s + 2.0


def test_a_light_model_is_searched_beside_a_heavy_one() -> None:
    """Where each has its share of the time; by time alone the heavy one would take all of it."""
    heavy, light = launch(CONV, 12544, 256, 256), launch(DEPTHWISE, 784, 9, 64)
    light = dataclasses.replace(light, uses=tuple(dataclasses.replace(use, model="light") for use in light.uses))
    outcome = tune(SimulatedDevice(), (light, heavy), budget_s=12.0)
    assert min(outcome.tried[light.key], outcome.tried[heavy.key]) >= 5


def test_models_weigh_alike_and_their_launches_by_their_time() -> None:
    def uses(*models: str) -> list[Use]:
        return [Use(model, "step") for model in models]

    weights = model_weights(
        [(6.0, uses("heavy")), (2.0, uses("heavy")), (math.inf, uses("light")), (1.0, uses("light", "light"))]
    )
    assert weights == pytest.approx([6 * 5 / 8, 2 * 5 / 8, math.inf, 2 * 5 / 2])


def test_a_budget_that_may_grow_tries_something_where_nothing_is_left_of_it() -> None:
    device = SimulatedDevice()
    with Journal(None, "f") as journal:
        runner = TrialRunner(pool_of_one(device), journal, Budget(0.01, grows=True))
        outcome = search(LAUNCHES, expand, runner, LEVELS["quick"])
    assert sum(outcome.tried.values()) >= LEAST_TRIALS
    assert sum(outcome.device_s.values()) <= outcome.needed_s + 0.2


@pytest.mark.parametrize(("gain", "again"), [(0.01, False), (0.06, True)])
def test_what_promises_too_little_to_leave_a_chosen_default_is_not_timed_again(gain: float, again: bool) -> None:
    calls = Counter[Candidate]()

    def measure(one: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        calls[candidate] += 1
        is_default = candidate == space.default_candidate(one)
        return Trial(TrialStatus.OK, (1e5 * (1.0 if is_default else 1.0 - gain),) * reps, 0.001, 0.0, 0.0, 1.0)

    with Journal(None, "f") as journal:
        level = LEVELS["quick"].of_chosen_defaults
        verdict = search(FEW[:1], expand, TrialRunner(pool_of_one(measure), journal), level).verdicts[0]
    assert verdict.won == again
    assert (max(calls.values()) > 1) == again


@pytest.mark.parametrize(("share", "is_tried"), [(0.01, False), (0.04, True)])
def test_a_light_launch_keeps_its_chosen_default_untried(share: float, is_tried: bool) -> None:
    heavy, light = FEW[0], dataclasses.replace(FEW[1], kernel=dataclasses.replace(CONV, name="light"), uses=FEW[0].uses)
    tried = Counter[str]()

    def measure(one: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        tried[one.kernel.name] += candidate != space.default_candidate(one)
        return Trial(TrialStatus.OK, (1e6 * (share if one.kernel.name == "light" else 1.0),) * reps, 0.001, 0, 0, 1.0)

    with Journal(None, "f") as journal:
        runner = TrialRunner(pool_of_one(measure), journal)
        found = search([heavy, light], expand, runner, LEVELS["quick"].of_chosen_defaults)
    assert tried[heavy.kernel.name] > 0 and (tried["light"] > 0) == is_tried
    assert is_tried or "too small a part" in found.verdicts[1].reason
    assert LEVELS["exhaustive"].of_chosen_defaults.minor == 0.0
