"""Building ahead: what is built beside a trial, what that hides, and when it is given up."""

import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from runtime.lowering.trials import TrialLaunch
from tests.tuner.compiler_thread import CompilerThread
from tests.tuner.simulated_device import CONV, LAUNCHES, SimulatedDevice, launch, true_time_ns
from tests.tuner.test_search import best_ns, expand, model_ns
from tuner.budget import Budget
from tuner.build_ahead import AheadBuilds, BuildAhead, BuildBeside, TrialProgram
from tuner.device_pool import DevicePool, PoolMember, pool_of_one
from tuner.journal import Journal
from tuner.search import LEVELS, SearchResult, search
from tuner.space import default_candidate
from tuner.trial import Candidate, Trial, TrialStatus
from tuner.trial_runner import TrialRunner

LAUNCH = launch(CONV, 49, 16, 32)
PROGRAMS = [TrialProgram(LAUNCH, variant) for variant in CONV.variants]
BUILD_S, TRIAL_S = 1.0, 0.2


def none_is_compiled(_: TrialProgram) -> bool:
    return False


def test_the_first_program_that_is_not_there_is_built_and_no_further_one_is_asked_for() -> None:
    ahead = AheadBuilds(BuildAhead.AUTO)

    def upcoming() -> Iterator[TrialProgram]:
        yield from PROGRAMS[:2]
        raise AssertionError("asked for more")

    assert ahead.choose(upcoming(), lambda program: program == PROGRAMS[0]) == PROGRAMS[1]
    ahead.note(BuildBeside(built=PROGRAMS[1].key))
    assert ahead.choose(PROGRAMS, none_is_compiled) == PROGRAMS[0]
    ahead.note(BuildBeside(0.25, built=PROGRAMS[0].key))
    assert ahead.choose(PROGRAMS[:2], none_is_compiled) is None
    assert ahead.use and ahead.use.hidden_s == 0.25


def test_off_is_off() -> None:
    ahead = AheadBuilds(BuildAhead.OFF)
    assert ahead.choose(PROGRAMS, none_is_compiled) is None
    assert ahead.use is None


def compared(mode: BuildAhead, slowdown: float, trials: int = 20) -> tuple[AheadBuilds, list[bool]]:
    """Trials that are beside a build whenever one is asked for; and which were."""
    ahead, beside = AheadBuilds(mode), []
    for _ in range(trials):
        is_on = ahead.choose(PROGRAMS, none_is_compiled) is not None
        ahead.compare(slowdown if is_on else 1.0, BuildBeside(was_on=is_on))
        beside.append(is_on)
    return ahead, beside


@pytest.mark.parametrize(
    ("mode", "slowdown", "goes_on"), [("auto", 1.05, True), ("auto", 1.2, False), ("on", 2.0, True)]
)
def test_trials_with_and_without_take_turns_until_they_tell(mode: str, slowdown: float, goes_on: bool) -> None:
    ahead, beside = compared(BuildAhead(mode), slowdown)
    assert beside[:16] == [True, False] * 8, "none knows more before"
    assert all(beside[16:]) if goes_on else not any(beside[16:])
    assert ahead.use and ahead.use.slowdown == pytest.approx(slowdown)
    assert ahead.use.is_given_up != goes_on
    assert ("nothing is built ahead any more" in str(ahead.use)) != goes_on


def paired(of: TrialLaunch, candidate: Candidate, trial: Trial) -> Trial:
    """With the default timed in turns, and a trial that takes some time beside its build."""
    own_ns = () if candidate == default_candidate(of) else (true_time_ns(of, default_candidate(of)),) * len(trial.ns)
    return dataclasses.replace(trial, own_ns=own_ns, device_s=trial.build_s + TRIAL_S)


class Unit:
    """A unit whose programs take a second to build, with a compiler that works beside the GPU."""

    def __init__(self, slowdown: float = 1.0) -> None:
        self.device = SimulatedDevice(spoil=paired, build_s=BUILD_S, builds_each_size=False)
        self.compiler = CompilerThread(self.device, lambda program: BUILD_S, slowdown)

    def tune(self, mode: BuildAhead, budget_s: float, launches: tuple[TrialLaunch, ...]) -> SearchResult:
        pool = DevicePool([PoolMember("", self.compiler, self.compiler.expect)])
        self.runner = TrialRunner(pool, Journal(None, "f"), Budget(budget_s), build_ahead=mode)
        return search(launches, expand, self.runner, LEVELS["quick"])

    @property
    def programs_tried(self) -> int:
        return len({options for options, _ in self.runner.programs})


@pytest.mark.slow
def test_more_is_tried_in_the_same_time() -> None:
    """Six launches of one kernel: 15 s are four programs of a second each with their trials, or six."""
    ahead, before = Unit(), Unit()
    use = ahead.tune(BuildAhead.AUTO, 15.0, LAUNCHES[:6]).built_ahead
    assert before.tune(BuildAhead.OFF, 15.0, LAUNCHES[:6]).built_ahead is None
    assert ahead.programs_tried > before.programs_tried
    assert use and use.hidden_s > BUILD_S and use.slowdown == pytest.approx(1.0) and not use.is_given_up


@pytest.mark.slow
def test_the_search_goes_the_same_way_and_hides_what_it_says() -> None:
    """One kernel with time for all: the same trials, and device time shorter by what was hidden, but for what nobody
    needed and somebody waited for."""
    ahead, before = Unit(), Unit()
    found = ahead.tune(BuildAhead.ON, 1e6, LAUNCHES[:6])
    before.tune(BuildAhead.OFF, 1e6, LAUNCHES[:6])
    assert ahead.device.calls == before.device.calls
    saved_s = before.runner.spent_s - ahead.runner.spent_s
    wasted = ahead.compiler.programs - before.compiler.programs
    assert found.built_ahead and 0 < saved_s <= found.built_ahead.hidden_s + 1e-6
    assert saved_s >= found.built_ahead.hidden_s - wasted * BUILD_S - 1e-6
    assert ahead.runner.builds_each_size == before.runner.builds_each_size


@pytest.mark.slow
def test_a_unit_on_which_it_harms_is_left_alone() -> None:
    unit = Unit(slowdown=1.5)
    outcome = unit.tune(BuildAhead.AUTO, 1e6, LAUNCHES)
    assert outcome.built_ahead and outcome.built_ahead.is_given_up
    assert outcome.built_ahead.slowdown == pytest.approx(1.5, rel=0.05)
    assert outcome.states is None, "what builds do to launches is no state of the unit"
    slow = Unit(slowdown=1.5)
    slow.tune(BuildAhead.ON, 1e6, LAUNCHES)
    assert slow.runner.built_ahead and slow.runner.built_ahead.hidden_s > outcome.built_ahead.hidden_s


def test_units_that_share_a_search_expect_only_their_own() -> None:
    """What follows may be another unit's turn; a member that cannot build ahead is asked for nothing."""
    expected: list[TrialProgram] = []
    names = itertools.count()

    def measure(of: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        return Trial(TrialStatus.OK, (100.0,) * reps, 0.1, 0.1, 0.0, 1.0)

    def member(**others: object) -> PoolMember:
        return PoolMember(str(next(names)), measure, **others)  # type: ignore[arg-type]

    for members in ([member(expect=expected.append)], [member()]):
        runner = TrialRunner(DevicePool(members), Journal(None, "f"), build_ahead=BuildAhead.ON)
        runner.trial(LAUNCH, default_candidate(LAUNCH), 3, upcoming=PROGRAMS)
    assert [program.variant for program in expected] == [CONV.variants[1]], "its own is the first"
    both = Unit()
    twice = [PoolMember(name, both.device, expected.append) for name in "ab"]
    runner = TrialRunner(DevicePool(twice), Journal(None, "f"), build_ahead=BuildAhead.ON)
    expected.clear()
    search(LAUNCHES[:2], expand, runner, LEVELS["quick"])
    assert not expected, "both launches have the same options"


CONVS = LAUNCHES[:6]


def quick(device: SimulatedDevice) -> tuple[SearchResult, TrialRunner]:
    runner = TrialRunner(pool_of_one(device), Journal(None, "f"))
    return search(CONVS, expand, runner, LEVELS["quick"]), runner


@pytest.mark.slow
@pytest.mark.parametrize("each_size", [True, False])
def test_trials_tell_whether_a_local_size_costs_a_build(each_size: bool) -> None:
    _, runner = quick(SimulatedDevice(builds_each_size=each_size))
    assert runner.builds_each_size == each_size


@pytest.mark.slow
def test_sizes_that_cost_no_build_are_tried_in_larger_numbers() -> None:
    (_, costly), (found, free) = quick(SimulatedDevice()), quick(SimulatedDevice(builds_each_size=False))
    assert len(free.programs) > 1.3 * len(costly.programs)
    assert model_ns(found) < 1.06 * best_ns(CONVS)


@pytest.mark.slow
def test_long_builds_are_spared_by_what_options_have_shown() -> None:
    (_, short), (found, long) = quick(SimulatedDevice(build_s=0.1)), quick(SimulatedDevice(build_s=0.5))
    options = [len({options for options, _ in runner.programs}) for runner in (short, long)]
    assert options[1] < options[0]
    assert model_ns(found) < 1.15 * best_ns(CONVS)
