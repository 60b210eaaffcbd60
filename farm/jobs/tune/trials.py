"""Trials on a unit: the tuner's `measure`, over a farmrt that holds a trial plan and is started again when it dies."""

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from farm.condition.throttling import throttling_cause
from farm.config.execution import DEFAULT, Execution
from farm.farmrt.answers import TrialAnswer
from farm.jobs.compare.interleaved import Effort
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared
from farm.jobs.tune.built_programs import BUILT_PROGRAMS
from farm.workspace import TUNING
from runtime.errors import DeadlineError, DeviceError, ProcessEndedError
from runtime.lowering.options import Options
from runtime.lowering.trials import TrialLaunch, TrialPlan, trial_plan
from runtime.target import Target
from tuner.build_ahead import BuildBeside, ProgramKey, TrialProgram
from tuner.coverage import covering_s, model_count, model_weights, of_weight
from tuner.space import default_candidate
from tuner.surroundings import Surroundings
from tuner.trial import FATAL_STATUSES, Candidate, Trial, TrialStatus

LEAST_TRIAL_DEADLINE_S = 5.0
MOST_LAUNCHES = 40  # as long as the longest default, in a trial
LOOK_S = 10.0
MS_PER_S, NS_PER_S = 1e3, 1e9
LONG_S = 0.05  # what is left in caches, and at which clock it begins, matters little to such a launch
RAMP_MS = 5  # a launch whose times do not agree by then is timed all the same


class UnitTrials:
    """Measures candidates on a unit; made by `trials_on`. `clock` counts seconds and should never go back.

    A trial that takes longer than to build and run all defaults, three times, counts as hanging: some compilers need
    minutes for a program before they give up.

    Every LOOK_S it looks whether the unit is throttled, and lets it rest.

    A program that is expected next is built while a candidate is measured. Where that ends the runtime, the candidate
    is tried once more, alone: if it comes through, the program is to blame, and is not tried.

    Attributes:
        launches: what can be tried, as far as some model uses it.
        surroundings: what runs before each of them.
        prepare_s: device time until the first trial.
        round_s: device time of a round of all models by default, what was compiled for it left out.
        default_s: the same of each launch, by tuning key.
    """

    def __init__(
        self,
        opened: OpenUnit,
        trial_plan: TrialPlan,
        plan_file: Path,
        clock: Callable[[], float] = time.monotonic,
        execution: Execution = DEFAULT,
    ) -> None:
        self.launches = tuple(launch for launch in trial_plan.launches if launch.uses)
        self.surroundings = Surroundings(self.launches)
        self._opened, self._inputs, self._plan_file, self._clock = opened, trial_plan.inputs, plan_file, clock
        self._execution, self._computes = execution, trial_plan.plan.target.computes
        self._gpu_family = trial_plan.plan.target.gpu_family
        self._expected: TrialProgram | None = None  # to be built during the next trial
        self._building: TrialProgram | None = None  # as far as is known
        self._fatal: dict[ProgramKey, Trial] = {}  # programs that ended the runtime while they were built ahead
        self._built = BUILT_PROGRAMS.of(opened)
        start_s = clock()
        self._conditions = opened.conditions()
        self._prepare()
        self._built.keep(opened, self._gpu_family)
        self._looked_s = clock()
        self.prepare_s = max(self._looked_s - start_s, 0.0)
        longest_s = max(self.default_s.values(), default=0.0)
        self._deadline_s = max(3 * self.prepare_s, MOST_LAUNCHES * longest_s, LEAST_TRIAL_DEADLINE_S)

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """A trial; what the candidate does wrong is in its status.

        Raises DeviceLostError or another JobError when farmrt cannot be brought up again: then the unit is lost.
        """
        start_s = self._clock()
        if start_s - self._looked_s >= LOOK_S:
            self._rest_if_throttled()
            start_s = self._looked_s = self._clock()
        trial = self._attempt(launch, candidate, reps)
        return dataclasses.replace(trial, device_s=max(self._clock() - start_s, 0.0))

    def expect(self, program: TrialProgram) -> None:
        """Names the program to build during the next trial; passed over while another one is being built."""
        self._expected = program

    def end(self) -> None:
        """Keeps what was built: winners are loaded next, and other models' searches try the same programs.

        Ends what is still being built, since whatever the unit is asked next would wait for it.
        """
        session = self._opened.session
        try:
            if session.alive and not self._building:
                self._built.keep(self._opened, self._gpu_family, trials=True)
        except (DeadlineError, ProcessEndedError):
            session.respawn()
        if session.alive and self._building:
            self._building = None
            session.respawn()

    def _rest_if_throttled(self) -> None:
        """Waits until the unit runs as it did at the beginning, or has rested often enough."""
        rest = self._opened.rest
        for _ in range(rest.max_repeats):
            reason = throttling_cause(self._conditions, self._opened.conditions())
            if not reason:
                break
            self._opened.progress.stage(f"throttled ({reason}): rests {rest.rest_s:g} s")
            self._opened.sleep(rest.rest_s)

    def _attempt(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        own = TrialProgram(launch, candidate.variant).key
        if own in self._fatal:
            return self._fatal[own]
        beside = self._building or self._expected
        trial = self._tried(launch, candidate, reps)
        if trial.status not in FATAL_STATUSES or beside is None or beside.key == own:
            return trial
        alone = self._tried(launch, candidate, reps)
        if alone.status not in FATAL_STATUSES:
            self._fatal[beside.key] = dataclasses.replace(trial, reason=f"while it was built ahead: {trial.reason}")
        return alone

    def _tried(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        try:
            if launch.poison is not None:
                self._opened.session.trial(self._deadline_s, step=launch.poison, reps=1)
            words = _words(launch, candidate, reps) | self._state(launch, candidate) | self._ahead()
            answer = self._opened.session.trial(self._deadline_s, **words)
            trial = dataclasses.replace(_trial(answer), beside=self._beside(answer))
            return trial if self._computes else dataclasses.replace(trial, max_abs_error=0.0, nan_count=0)
        except DeviceError as error:
            self._check_health()
            return Trial(TrialStatus.FAILED, reason=str(error))
        except DeadlineError as error:
            self._restart()
            return Trial(TrialStatus.HANG, reason=str(error))
        except ProcessEndedError as error:
            self._restart()
            return Trial(TrialStatus.CRASH, reason=str(error))

    def _ahead(self) -> dict[str, Any]:
        """The words that name the program to build meanwhile: one at a time, so that it is known which one harms."""
        program, self._expected = self._expected, None
        if program is None or self._building or program.key in self._fatal:
            return {}
        self._building = program
        return {"ahead_step": program.launch.step, "ahead_options": program.options}

    def _beside(self, answer: TrialAnswer) -> BuildBeside:
        """Reads from a trial's answer which programs were built beside it."""
        over = None if answer.building else self._building
        self._building = self._building if answer.building else None
        return BuildBeside(answer.hidden_ms / MS_PER_S, answer.beside_build, over.key if over else None)

    def _state(self, launch: TrialLaunch, candidate: Candidate) -> dict[str, Any]:
        """In which state a launch is timed: as in a model, after a ramp, and in turns with its default.

        A long one is neither warmed up nor given surroundings: it would be timed alike, and take many times as long.
        """
        pairs = {"pairs": int(candidate != default_candidate(launch))}
        if self.is_long(launch):
            return {"warmup": 0, **pairs}
        before = [other.step for other in self.surroundings.before(launch.key)]
        return {"before": before or None, "ramp_ms": RAMP_MS, **pairs}

    def is_long(self, launch: TrialLaunch) -> bool:
        """Whether the launch takes so long by default that little else decides what it takes."""
        return self.default_s.get(launch.key, 0.0) >= LONG_S

    def _check_health(self) -> None:
        """After an error: a driver that lost its context fails whatever comes next, until farmrt is started again."""
        try:
            self._run_once()
        except (DeviceError, DeadlineError, ProcessEndedError):
            self._restart()

    def _restart(self) -> None:
        self._building = None
        self._opened.session.respawn()
        self._prepare()

    def _prepare(self) -> None:
        """Brings the trial plan up, with the programs that are built already unless the driver fails with those."""
        try:
            self._run_with(self._built.file)
        except (DeviceError, DeadlineError, ProcessEndedError):
            if self._built.file is None:
                raise
            self._built.forget()
            self._opened.session.respawn()
            self._run_with(None)

    def _run_with(self, programs: Path | None) -> None:
        """Loads the trial plan, and runs it once so that every step's input is there."""
        start_s = time.monotonic()
        self._opened.load(self._plan_file, kernels=programs, lazy=True, execution=self._execution)
        self._opened.write_inputs(self._inputs)
        self._load_s = time.monotonic() - start_s
        self._opened.first_round()  # programs are built between its launches, which would count as theirs
        self._run_once()

    @property
    def process_s(self) -> float:
        """What a process takes that starts, loads the models' plans and runs rounds of a proof."""
        return self._opened.start_s + self._load_s + Effort().process_s(MS_PER_S * self.round_s)

    def _run_once(self) -> None:
        steps = self._opened.first_round(profile=True).steps
        self.default_s = {launch.key: steps[launch.step].ns[0] / NS_PER_S for launch in self.launches}
        self.round_s = sum(self.default_s[launch.key] * len(launch.uses) for launch in self.launches)

    @property
    def covering_s(self) -> float:
        """About how long ten trials of each launch of weight take, if a program takes as long as those of the plan."""
        build_s = max(self.prepare_s - self.round_s, 0.0) / max(len(self.launches), 1)
        seconds = [self.default_s[launch.key] for launch in self.launches]
        weights = model_weights([(self.default_s[launch.key], launch.uses) for launch in self.launches])
        return covering_s(of_weight(zip(seconds, weights, strict=True), model_count(self.launches)), build_s)


class TrialPlans:
    """The trial plans of a job, as they lie in their files: each is lowered once for all units of a SoC."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: dict[Path, tuple[object, TrialPlan]] = {}

    def written(self, plan_file: Path, models: Sequence[Prepared], target: Target, options: Options) -> TrialPlan:
        """Lowers the distinct launches of some models with one target and options; its data lie in the file alone."""
        key = ([id(model) for model in models], target, options)
        with self._lock:
            written_key, trials = self._written.get(plan_file, (None, None))
            if trials is None or written_key != key:
                graphs = [dataclasses.replace(model.graph, name=use_name(model)) for model in models]
                lowered = trial_plan(graphs, target, options)
                write_plan(lowered.plan, plan_file)
                trials = dataclasses.replace(lowered, plan=dataclasses.replace(lowered.plan, data=b""))
                self._written[plan_file] = (key, trials)
            return trials


def trials_file(opened: OpenUnit, name: str) -> Path:
    """Where the trial plan of a name lies."""
    return TUNING.plan_file(name, opened.unit.abi, opened.unit.soc, "gpu")


def trials_on(
    opened: OpenUnit, models: Sequence[Prepared], target: Target, options: Options, name: str, plans: TrialPlans
) -> UnitTrials:
    """Brings the distinct launches of some models with one target and options to the unit."""
    plan_file = trials_file(opened, name)
    written = plans.written(plan_file, models, target, options)
    return UnitTrials(opened, written, plan_file, execution=models[0].settings.execution)


def use_name(model: Prepared) -> str:
    """What the uses of a launch call a model: libraries may name models alike."""
    return f"{model.deployment.library_name}/{model.name}"


def _words(launch: TrialLaunch, candidate: Candidate, reps: int) -> dict[str, Any]:
    own = {"step": launch.step, "reps": reps, "warmup": 1, "check": 1}
    if candidate == default_candidate(launch):
        return own  # the plan's own launch, which farmrt makes fit where the kernel allows no group as large
    dimensions = len(launch.work_items(candidate.variant))
    return own | {
        "options": launch.options(candidate.variant),
        "global": launch.global_size(candidate.variant, candidate.local_size)[:dimensions],
        "local": candidate.local_size[:dimensions],
        "block": launch.block(candidate.variant),
    }


def _trial(answer: TrialAnswer) -> Trial:
    return Trial(
        TrialStatus.OK,
        ns=tuple(answer.ns),
        own_ns=tuple(answer.own_ns),
        build_s=answer.build_ms / MS_PER_S,
        max_abs_error=answer.max_abs_error,
        max_abs_expected=answer.max_abs_expected or 0.0,
        nan_count=answer.nan_count,
        max_work_group_size=answer.max_work_group_size,
        preferred_multiple=answer.preferred_multiple,
    )
