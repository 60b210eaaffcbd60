"""Trials over a farmrt that errs, hangs and dies: what the candidate did is in the trial, and the next one works."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from farm.condition.throttling import RetryPolicy
from farm.farmrt.answers import LoadAnswer, RunAnswer, StepAnswer, TrialAnswer
from farm.jobs.compare.interleaved import PlanFile
from farm.jobs.fleet.progress import UnitProgress
from farm.jobs.tune import trials
from farm.jobs.tune.built_programs import start_from_source
from farm.jobs.tune.trials import RAMP_MS, UnitTrials
from farm.rows.device_state import DeviceState
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, ProcessEndedError
from runtime.plan.artifacts import Fingerprint, KernelSet, decode_kernels, encode_kernels
from tests.tuner.simulated_device import CONV, launch
from tuner.build_ahead import NO_BUILD, BuildBeside, TrialProgram
from tuner.space import default_candidate
from tuner.trial import Candidate, Trial, TrialStatus

GOOD: dict[str, Any] = {
    "ok": True,
    "build_ms": 20.0,
    "ns": [100, 110],
    "wall_ns": 210,
    "max_abs_error": 1e-6,
    "max_abs_expected": 1.0,
    "nan_count": 0,
    "max_work_group_size": 256,
    "preferred_multiple": 8,
}
LAUNCH = launch(CONV, 49, 16, 32)
UNUSED = launch(CONV, 7, 7, 7, uses=0)


class FakeUnit:
    """A unit whose session answers `trial` with what is next in `script`, and fails others when told to."""

    def __init__(self, *script: dict[str, Any] | Exception) -> None:
        self.script, self.rest = list(script), RetryPolicy()
        self.run_errors: list[Exception] = []
        self.respawn_error: Exception | None = None
        self.save_error: Exception | None = None
        self.saved: list[bool] = []  # whether the programs of trials were asked for
        self.log: list[str] = []
        self.words: dict[str, Any] = {}
        self.alive, self.is_built = True, False
        self.session = self
        self.progress = UnitProgress("fake")
        self.states: list[DeviceState] = []
        self.rests: list[float] = []
        self.pulled = 0
        self.programs: list[KernelSet] = []
        self.gpu_family = "adreno"
        self.kernels: list[Path | None] = []
        self.began: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)

    def first_round(self, profile: bool = False) -> RunAnswer:
        """The first after `load` builds programs between its launches."""
        builds, self.is_built = not self.is_built, True
        if profile or self.run_errors:
            self.log.append("run")
        if self.run_errors:
            raise self.run_errors.pop(0)
        step = StepAnswer(start_ns=0, first_ns=9_000_000, ns=[9_000_000 if builds else 2_000_000])
        return RunAnswer(wall_ns=[9_000_000], steps=[step] * (LAUNCH.step + 1) if profile else [])

    def running_first_round(self) -> Callable[[], RunAnswer]:
        return self.first_round

    def trial(self, deadline_s: float, **words: Any) -> TrialAnswer:
        self.log.append("trial")
        self.words = words | {"deadline_s": deadline_s}
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return TrialAnswer.model_validate(answer)

    def conditions(self) -> DeviceState:
        return self.states.pop(0) if self.states else DeviceState()

    def respawn(self) -> None:
        self.log.append("respawn")
        if self.respawn_error:
            raise self.respawn_error

    def load(self, *_: Any, kernels: Path | None = None, **__: Any) -> LoadAnswer:
        self.log.append("load")
        self.is_built = False
        self.kernels.append(kernels)
        return LoadAnswer(init_ms=3.0)

    def loading(self, path: Path, **words: Any) -> Callable[[], LoadAnswer]:
        self.began.append(path.name)
        return lambda: self.load(path, **words)

    def save_kernels(self, local: Path, trials: bool = False) -> None:
        self.saved.append(trials)
        if self.save_error:
            raise self.save_error
        if not self.programs:
            raise DeviceError("the driver gives no binaries")
        self.pulled += 1
        local.write_bytes(encode_kernels([self.programs.pop(0)]))

    def write_inputs(self, *_: Any) -> None:
        self.log.append("inputs")


def seconds(*values: float) -> Iterator[float]:
    yield from values
    while True:
        yield values[-1]


def trials_of(unit: FakeUnit, *clock: float) -> UnitTrials:
    ticks = seconds(*(clock or (0.0,)))
    plan = SimpleNamespace(target=SimpleNamespace(gpu_family=unit.gpu_family, computes=True))
    found: Any = SimpleNamespace(launches=(LAUNCH, UNUSED), inputs={}, plan=plan)
    opened: Any = unit
    return UnitTrials(opened, found, Path("x.plan"), lambda: next(ticks))


def test_a_round_is_what_all_uses_of_the_launches_take() -> None:
    assert trials_of(FakeUnit()).round_s == pytest.approx(0.002 * len(LAUNCH.uses))


def test_a_good_trial() -> None:
    unit = FakeUnit(GOOD)
    trials = trials_of(unit, 0.0, 4.0, 10.0, 10.5)
    trial = trials(LAUNCH, default_candidate(LAUNCH), 2)
    assert trials.launches == (LAUNCH,), "what no model uses is not tried"
    assert trials.prepare_s == 4.0
    assert (trial.status, trial.ns, trial.device_s, trial.build_s) == (TrialStatus.OK, (100.0, 110.0), 0.5, 0.02)
    assert (trial.max_abs_error, trial.max_work_group_size, trial.preferred_multiple) == (1e-6, 256, 8)
    assert unit.log == ["load", "inputs", "run", "trial"]
    assert unit.words["deadline_s"] == 12.0, "three times as long as all defaults took"


def test_a_candidate_is_told_in_full_and_the_default_is_the_plans_own_launch() -> None:
    """So that farmrt makes the default's group smaller where the kernel's limit is lower, as in a round."""
    variant = next(variant for variant in CONV.variants if variant != LAUNCH.variant)
    unit = FakeUnit(GOOD, GOOD)
    trials = trials_of(unit)
    trials(LAUNCH, Candidate(variant, (4, 2, 1)), 2)
    assert unit.words["global"] == LAUNCH.global_size(variant, (4, 2, 1))[:2]
    assert unit.words["local"] == (4, 2)
    assert (unit.words["block"], unit.words["options"]) == (variant["BLOCK"], LAUNCH.options(variant))
    trials(LAUNCH, default_candidate(LAUNCH), 2)
    assert not unit.words.keys() & {"options", "global", "local", "block"}


def test_a_candidate_is_timed_in_pairs_after_launches_that_sweep_the_caches() -> None:
    other = next(Candidate(variant, (0, 0, 0)) for variant in CONV.variants if variant != LAUNCH.variant)
    unit = FakeUnit(GOOD | {"own_ns": [200, 220]}, GOOD)
    trials = trials_of(unit)
    assert trials(LAUNCH, other, 2).own_ns == (200.0, 220.0)
    assert (unit.words["pairs"], unit.words["ramp_ms"], unit.words["before"]) == (1, RAMP_MS, None)
    trials(LAUNCH, default_candidate(LAUNCH), 2)
    assert unit.words["pairs"] == 0, "the default beside itself tells nothing"


def test_an_answer_without_an_expectation_says_so() -> None:
    answer = {name: value for name, value in GOOD.items() if not name.startswith(("max_abs", "nan"))}
    assert trials_of(FakeUnit(answer))(LAUNCH, default_candidate(LAUNCH), 2).max_abs_error is None


def test_a_throttled_unit_rests_before_the_next_trial() -> None:
    unit = FakeUnit(GOOD, GOOD)
    hot, cool = DeviceState(thermal_status=3), DeviceState(thermal_status=0)
    unit.states = [cool, hot, cool]
    measure = trials_of(unit, 0.0, 1.0, 2.0, 3.0, 3.0 + trials.LOOK_S)
    measure(LAUNCH, default_candidate(LAUNCH), 2)
    assert not unit.rests
    measure(LAUNCH, default_candidate(LAUNCH), 2)
    assert unit.rests == [unit.rest.rest_s]


def test_a_clock_that_goes_back_costs_nothing() -> None:
    trials = trials_of(FakeUnit(GOOD), 5.0, 3.0, 10.0, 4.0)
    assert trials.prepare_s == 0.0
    assert trials(LAUNCH, default_candidate(LAUNCH), 2).device_s == 0.0


@pytest.mark.parametrize(
    ("error", "status"),
    [(DeadlineError("no answer"), TrialStatus.HANG), (ProcessEndedError("SIGABRT: LLVM ERROR"), TrialStatus.CRASH)],
)
def test_what_kills_farmrt_costs_one_respawn(error: Exception, status: TrialStatus) -> None:
    unit = FakeUnit(error, GOOD)
    trials = trials_of(unit)
    unit.log.clear()
    trial = trials(LAUNCH, default_candidate(LAUNCH), 2)
    assert (trial.status, trial.reason) == (status, str(error))
    assert unit.log == ["trial", "respawn", "load", "inputs", "run"]
    assert trials(LAUNCH, default_candidate(LAUNCH), 2).status == TrialStatus.OK


def test_an_error_is_followed_by_a_look_whether_farmrt_still_works() -> None:
    unit = FakeUnit(DeviceError("clBuildProgram: -11", "build_failed"), GOOD)
    trials = trials_of(unit)
    unit.log.clear()
    assert trials(LAUNCH, default_candidate(LAUNCH), 2).status == TrialStatus.FAILED
    assert unit.log == ["trial", "run"]


def test_a_lost_context_costs_a_respawn() -> None:
    unit = FakeUnit(DeviceError("CL_OUT_OF_RESOURCES", "opencl"), GOOD)
    trials = trials_of(unit)
    unit.log.clear()
    unit.run_errors = [DeviceError("CL_INVALID_COMMAND_QUEUE", "opencl")]
    assert trials(LAUNCH, default_candidate(LAUNCH), 2).status == TrialStatus.FAILED
    assert unit.log == ["trial", "run", "respawn", "load", "inputs", "run"]


def test_a_unit_that_is_gone_ends_the_search() -> None:
    unit = FakeUnit(ProcessEndedError("farmrt ended"))
    trials = trials_of(unit)
    unit.respawn_error = DeviceLostError("the unit does not answer")
    with pytest.raises(DeviceLostError, match="does not answer"):
        trials(LAUNCH, default_candidate(LAUNCH), 2)


def programs_of(*keys: str) -> KernelSet:
    return KernelSet(
        Fingerprint("soc", "gpu", "driver", "opencl", "cpu", "h", "1"),
        "host",
        {key: b"binary of " + key.encode() for key in keys},
    )


def test_the_next_trial_plan_loads_what_the_ones_before_have_built() -> None:
    unit = FakeUnit()
    unit.programs = [programs_of("h|-DA=1", "h|-DA=2"), programs_of("h|-DA=2", "h|-DA=3")]
    for _ in range(3):
        trials_of(unit)
    first, second, third = unit.kernels
    assert first is None and second == third
    assert third and decode_kernels(third.read_bytes(), "x") == [programs_of("h|-DA=1", "h|-DA=2", "h|-DA=3")]
    assert unit.pulled == 2, "a driver that gives no binaries takes nothing away"


def test_what_a_search_has_tried_is_loaded_by_whoever_needs_it_next() -> None:
    unit = FakeUnit()
    unit.programs = [programs_of("h|-DA=1"), programs_of("h|-DA=1", "h|-DTRIED=1")]
    trials_of(unit).end()
    assert unit.saved == [False, True]
    trials_of(unit)
    (_, last) = unit.kernels
    assert last and decode_kernels(last.read_bytes(), "x") == [programs_of("h|-DA=1", "h|-DTRIED=1")]


class TwinnedUnit(FakeUnit):
    """One that keeps programs on disk, so that its twin finds them; `told` is what both are asked, in order."""

    def __init__(self, told: list[str] | None = None, name: str = "own") -> None:
        super().__init__()
        self.gpu_family, self.told, self.name = "pocl-3.1-avx512", [] if told is None else told, name

    @contextlib.contextmanager
    def twin(self) -> Iterator[FakeUnit]:
        self.other = TwinnedUnit(self.told, "twin")
        yield self.other
        self.told.append("twin: closed")

    @contextlib.contextmanager
    def removing(self, files: list[str]) -> Iterator[None]:
        yield
        self.told.append(f"{self.name}: removed {', '.join(files)}")

    def sent(self, command: str, /, **words: Any) -> Callable[[], None]:
        self.told.append(f"{self.name}: begins {command} {words['file']}")
        return lambda: None

    def loading(self, path: Path, **words: Any) -> Callable[[], LoadAnswer]:
        self.told.append(f"{self.name}: begins {path.name}")
        return lambda: self.load(path, **words)


def starts(unit: FakeUnit, *names: str) -> list[LoadAnswer | None]:
    target, opened = SimpleNamespace(gpu_family=unit.gpu_family, compute_units=2), cast(Any, unit)
    plan_files = [PlanFile(cast(Any, SimpleNamespace(target=target)), Path(name)) for name in names]
    return [each.load for each in start_from_source(opened, [(plan_file, {}) for plan_file in plan_files])]


def start(unit: FakeUnit) -> LoadAnswer | None:
    (load,) = starts(unit, "default.plan")
    return load


def test_a_plan_is_started_from_source_once_and_trials_load_what_it_has_built() -> None:
    unit = FakeUnit()
    unit.programs = [programs_of("h|-DA=1")]
    first = start(unit)
    trials_of(unit)
    assert first and start(unit) is first and unit.kernels[0] is None and unit.kernels[1:] != [None]
    assert unit.log.count("load") == 2, "one of them the trial plan's"


def test_plans_are_started_two_at_a_time_where_the_driver_keeps_programs_on_disk() -> None:
    unit = TwinnedUnit()
    unit.run_errors = [ProcessEndedError("it crashes")]
    assert [load is not None for load in starts(unit, "a", "b", "c", "b")] == [False, True, True, True]
    assert unit.told[:2] == ["own: begins a", "twin: begins b"] and unit.told[-1] == "twin: closed"
    assert unit.told.count("own: begins c") == 1 and unit.log.count("respawn") == 1
    assert unit.told.index("twin: begins save_kernels b.kernels") < unit.told.index("twin: removed b.kernels")
    assert starts(unit, "b") != [None] and unit.told[-1] == "twin: closed", "it was started before"
    alone = FakeUnit()
    starts(alone, "a", "b")
    assert alone.began == ["a", "b"] and alone.saved == [False, False], "on one that gives its programs away"


def test_a_default_that_the_driver_fails_with_does_not_end_the_search() -> None:
    unit = FakeUnit()
    unit.run_errors = [ProcessEndedError("it crashes")]
    assert start(unit) is None and unit.log[-1] == "respawn"
    trials_of(unit)


def test_a_search_ends_well_where_the_driver_fails_to_give_programs_away() -> None:
    unit = FakeUnit()
    made = trials_of(unit)
    unit.save_error = ProcessEndedError("clGetProgramInfo")
    made.end()
    assert unit.log[-1] == "respawn"


def test_a_driver_that_remembers_its_programs_is_not_asked_for_them() -> None:
    unit = FakeUnit()
    unit.gpu_family, unit.programs = "pocl-3.1-avx512", [programs_of("h|-DA=1")]
    for _ in range(2):
        trials_of(unit)
    assert unit.kernels == [None, None] and unit.pulled == 0


def test_programs_that_the_driver_fails_with_are_built_anew() -> None:
    unit = FakeUnit()
    unit.programs = [programs_of("h|-DA=1")]
    trials_of(unit)
    unit.run_errors = [ProcessEndedError("a binary of it")]
    trials_of(unit)
    assert [kernels is None for kernels in unit.kernels] == [True, False, True]
    assert unit.log[-4:] == ["respawn", "load", "inputs", "run"]


NEXT = TrialProgram(LAUNCH, CONV.variants[1])
BUILDING = GOOD | {"building": True, "beside_build": True}
AHEAD = {"ahead_step": LAUNCH.step, "ahead_options": NEXT.options}


def ahead_words(unit: FakeUnit) -> dict[str, Any]:
    return {name: value for name, value in unit.words.items() if name.startswith("ahead")}


def expecting(unit: FakeUnit) -> UnitTrials:
    made = trials_of(unit)
    made.expect(NEXT)
    return made


def try_default(made: UnitTrials) -> Trial:
    return made(LAUNCH, default_candidate(LAUNCH), 2)


def try_next(made: UnitTrials) -> Trial:
    return made(LAUNCH, Candidate(NEXT.variant, (0, 0, 0)), 2)


def test_what_is_expected_is_built_beside_one_trial_and_told_when_it_is_over() -> None:
    unit = FakeUnit(BUILDING, BUILDING, GOOD, GOOD | {"hidden_ms": 15.0})
    made = expecting(unit)
    assert try_default(made).beside == BuildBeside(was_on=True)
    assert ahead_words(unit) == AHEAD
    made.expect(TrialProgram(LAUNCH, CONV.variants[2]))
    try_default(made)
    assert ahead_words(unit) == {}, "one at a time"
    assert try_default(made).beside == BuildBeside(built=NEXT.key)
    assert try_next(made).beside == BuildBeside(hidden_s=0.015)
    made.end()
    assert "respawn" not in unit.log


@pytest.mark.parametrize(
    ("error", "status"), [(ProcessEndedError("died"), TrialStatus.CRASH), (DeadlineError("late"), TrialStatus.HANG)]
)
def test_a_program_that_ends_the_runtime_while_it_is_built_ahead_is_to_blame(
    error: Exception, status: TrialStatus
) -> None:
    unit = FakeUnit(error, GOOD, GOOD)
    made = expecting(unit)
    trial = try_default(made)
    assert (trial.status, trial.beside) == (TrialStatus.OK, NO_BUILD)
    assert unit.log[-5:] == ["respawn", "load", "inputs", "run", "trial"]
    assert ahead_words(unit) == {}, "it was alone"
    blamed = try_next(made)
    assert blamed.status == status and str(error) in blamed.reason and "ahead" in blamed.reason
    assert len(unit.script) == 1, "without asking the unit"
    made.expect(NEXT)
    try_default(made)
    assert ahead_words(unit) == {}, "nor is it built again"


def test_what_hangs_on_is_to_blame_in_a_later_trial_too() -> None:
    unit = FakeUnit(BUILDING, DeadlineError("late"), GOOD)
    made = expecting(unit)
    try_default(made)
    other = Candidate(CONV.variants[2], (0, 0, 0))
    assert made(LAUNCH, other, 2).status == TrialStatus.OK
    assert try_next(made).status == TrialStatus.HANG


def test_a_candidate_that_dies_alone_too_is_to_blame_itself() -> None:
    unit = FakeUnit(ProcessEndedError("died"), ProcessEndedError("died again"), GOOD)
    made = expecting(unit)
    assert try_default(made).status == TrialStatus.CRASH
    assert try_next(made).status == TrialStatus.OK


def test_a_program_that_dies_in_its_own_trial_is_not_tried_alone() -> None:
    unit = FakeUnit(BUILDING, DeadlineError("late"))
    made = expecting(unit)
    try_default(made)
    assert try_next(made).status == TrialStatus.HANG
    assert not unit.script


def test_what_is_still_being_built_at_the_end_is_not_waited_for() -> None:
    unit = FakeUnit(BUILDING, BUILDING)
    made = expecting(unit)
    try_default(made)
    made.end()
    assert unit.log[-1] == "respawn"
    lost = FakeUnit(BUILDING)
    made = expecting(lost)
    try_default(made)
    lost.alive = False
    made.end()
    assert "respawn" not in lost.log
