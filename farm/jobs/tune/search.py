"""The search on one unit: models alike in target, options and execution share a trial plan; a SoC has one journal."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from farm.config.execution import Execution
from farm.farmrt.answers import LoadAnswer
from farm.jobs.choices.costs import trials_fingerprint
from farm.jobs.compare.interleaved import TunedFiles
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.tune.built_programs import start_from_source
from farm.jobs.tune.journals import opened_journal
from farm.jobs.tune.schedule import TuningSchedule, needed_budget_s
from farm.jobs.tune.selecting import (
    BUDGET_SHARE,
    MOST_SHARES,
    ChoiceOnce,
    EarlierModels,
    PlanVersion,
    Selecting,
    SelectionOutcome,
)
from farm.jobs.tune.shared_search import SharedSearch
from farm.jobs.tune.trials import TrialPlans, UnitTrials, trials_file, trials_on, use_name
from farm.workspace import journal_file
from runtime.errors import FarmError, UnsupportedError
from runtime.lowering.lower import Options
from runtime.peaks import NOT_MEASURED
from runtime.plan.plan import Plan
from runtime.target import Target, runs_on_cpu
from tuner import space
from tuner.budget import Budget, Deadline
from tuner.build_ahead import BuildAhead, BuildAheadUse
from tuner.device_pool import DevicePool
from tuner.journal import Journal, foreign_trials
from tuner.relatives import relatives_of
from tuner.search import LEVELS, Expand, SearchLevel, SearchResult, search
from tuner.speed_states import SpeedStates
from tuner.trial_runner import TrialRunner
from tuner.verdict import LaunchVerdict

Key = tuple[Target, Options, Execution]  # models with the same are searched together

LEAST_CHOICE_S = 0.25  # device time in which one trial plan may be built and timed
LEAST_TRIAL_S = 0.05  # device time of the fastest trials: a program is built, a launch repeated


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How thorough a search is.

    Attributes:
        budget_s: wall time for each model, everything included; None for a search as long as the level's.
        memory: memory type, None for the unit's own.
        fresh: nothing is taken over from the journal.
        selection: whether where and how operators run is chosen first, over the whole graph.
        shared: a folder in which others who tune the same SoC are followed; None: no others are.
        build_ahead: whether programs are built while others are measured; AUTO: not on a driver for CPUs.
    """

    level: str = "quick"
    budget_s: float | None = None
    memory: str | None = None
    fresh: bool = False
    selection: bool = True
    shared: Path | None = None
    build_ahead: BuildAhead = BuildAhead.AUTO

    @property
    def device_s(self) -> float:
        """Device time that the search of a model may take at most."""
        return LEVELS[self.level].budget_s if self.budget_s is None else self.budget_s

    @property
    def tries(self) -> bool:
        """Whether anything is to be tried; with a budget of 0, what is known is proved."""
        return self.device_s > 0

    @property
    def grows(self) -> bool:
        """Whether the search may take longer than the level says, where a unit is slow: not where a time was named."""
        return self.budget_s is None

    def deadline(self, models: int = 1) -> Deadline:
        """When the tuning of so many models must have ended that begins now."""
        return Deadline() if self.budget_s is None else Deadline().within(self.budget_s * models)

    @property
    def selects(self) -> bool:
        """Whether there is a choice: not where the user wants one memory type throughout, nor with hardly any time."""
        return self.selection and self.memory is None and self.device_s * BUDGET_SHARE >= LEAST_CHOICE_S

    def build_ahead_on(self, target: Target) -> BuildAhead:
        """What `build_ahead` means on a target: a driver for CPUs compiles on the cores that it measures."""
        is_left_out = self.build_ahead == BuildAhead.AUTO and runs_on_cpu(target.gpu_family)
        return BuildAhead.OFF if is_left_out else self.build_ahead


LEAST_PROMISE = 0.015  # of the time: a proof accepts a hundredth, and winners promise more than they keep


@dataclasses.dataclass(frozen=True)
class ModelTuning:
    """What was found for one model: its plan, a verdict for each of its launches, and what that took.

    `trials` and `device_s` count what this search measured for the model's launches, also where others share them;
    `tried` the candidates beside the defaults that are known. `untried` says why there is none, else it is empty.
    `needed_s` is a budget that would do, None where the one that was asked for does.
    `first_load` is the start of the default plan of which nothing was built, `first_s` what it took until its result.
    `in_force` is the plan that units run so far, `chosen` what came of the choice over the graph: None without one.
    `states` are the unit's two speeds during the search, None where it had one; `built_ahead` is what came of building
    programs meanwhile, None where none was.
    """

    prepared: Prepared
    in_force: PlanVersion
    first_load: LoadAnswer | None = None
    first_s: float = 0.0
    verdicts: tuple[LaunchVerdict, ...] = ()
    trials: int = 0
    tried: int = 0
    untried: str = ""
    needed_s: float | None = None
    device_s: float = 0.0
    chosen: SelectionOutcome | None = None
    states: SpeedStates | None = None
    built_ahead: BuildAheadUse | None = None

    @property
    def version(self) -> PlanVersion:
        """The plan that is tuned."""
        return self.chosen.version if self.chosen else self.in_force

    @property
    def plan(self) -> Plan:
        """The plan that is tuned."""
        return self.version.plan

    @property
    def plan_file(self) -> Path:
        """The path of the tuned plan."""
        return self.version.plan_file

    @property
    def options(self) -> Options:
        """How the plan that is tuned was lowered."""
        return self.prepared.options(choice=self.version.choice)

    @property
    def is_new_plan(self) -> bool:
        """Whether the tuned plan differs from the plan in force."""
        return self.version.lowering != self.in_force.lowering

    @property
    def is_tuned(self) -> bool:
        """Whether anything but what is in force was tried; else there is nothing to prove or publish."""
        return not self.untried or self.is_new_plan

    @property
    def has_news(self) -> bool:
        """Whether any launch has a winner beside its default, or the plan is another one."""
        return bool(self.won) or self.is_new_plan

    @property
    def promised_gain(self) -> float:
        """The share of the time of all launches that the winners save, by the search; 1 where it cannot be told."""
        name, default_ns, saved_ns = use_name(self.prepared), 0.0, 0.0
        for verdict in self.verdicts:
            uses = sum(use.model == name for use in verdict.launch.uses)
            if verdict.won and not math.isfinite(verdict.default_ns):
                return 1.0
            if math.isfinite(verdict.default_ns):
                default_ns += uses * verdict.default_ns
                saved_ns += uses * (verdict.default_ns - verdict.tuned_ns)
        return saved_ns / default_ns if default_ns else 1.0

    @property
    def gains_little(self) -> bool:
        """Whether the winners promise next to nothing: no proof would make sure of it."""
        return bool(self.won) and not self.is_new_plan and self.promised_gain < LEAST_PROMISE

    @property
    def incumbent(self) -> ModelTuning:
        """The model with the plan in force, which nothing is known of."""
        return ModelTuning(self.prepared, self.in_force, self.first_load) if self.is_new_plan else self

    @property
    def target(self) -> Target:
        """What the model was lowered to."""
        return self.plan.target

    @property
    def won(self) -> int:
        """Launches for which another candidate than the default was chosen."""
        return sum(verdict.won for verdict in self.verdicts)


def search_models(
    opened: OpenUnit,
    models: Sequence[Prepared],
    options: SearchOptions,
    shared: SharedSearch[list[ModelTuning]],
    schedule: TuningSchedule,
    choices: ChoiceOnce | None = None,
    trial_plans: TrialPlans | None = None,
) -> list[ModelTuning]:
    """Chooses the plans of all models that run on the unit, and searches their launches, within the schedule.

    The other models are left out.
    """
    plans = trial_plans or TrialPlans()
    lowered = [tuned for model in models if (tuned := _lowered(opened, model, options.memory))]
    with _meanwhile(lambda: _prepare(opened, lowered, plans)):
        lowered = _started(opened, lowered, schedule.deadline.clock)
    if options.selects:
        made, earlier = choices or ChoiceOnce(), EarlierModels()
        lowered = [_chosen(opened, tuned, options, schedule, made, earlier) for tuned in lowered]
    searches = (
        _search(opened, key, group, options, shared, schedule, plans) for key, group in _groups(lowered).items()
    )
    return [tuned for group in searches for tuned in group]


def _groups(lowered: Iterable[ModelTuning]) -> dict[Key, list[ModelTuning]]:
    groups: dict[Key, list[ModelTuning]] = {}
    for tuned in lowered:
        key = (tuned.target, tuned.options, tuned.prepared.settings.execution)
        groups.setdefault(key, []).append(tuned)
    return groups


@contextlib.contextmanager
def _meanwhile(prepare: Callable[[], None]) -> Iterator[None]:
    """Prepares while the unit builds programs: nothing is timed, and the host would wait."""
    preparing = threading.Thread(target=prepare, daemon=True)
    preparing.start()
    yield
    preparing.join()


def _prepare(opened: OpenUnit, lowered: Sequence[ModelTuning], plans: TrialPlans) -> None:
    """Computes the reference outputs, and the trial plans if each plan stays as it is.

    What cannot be computed is asked for again, by who tells the user.
    """
    for tuned in lowered:
        with contextlib.suppress(FarmError):
            _ = tuned.prepared.own_data.expected
    for group in _groups(lowered).values():
        models, first = [tuned.prepared for tuned in group], group[0]
        with contextlib.suppress(FarmError):
            plans.written(trials_file(opened, first.prepared.name), models, first.target, first.options)


def _lowered(opened: OpenUnit, model: Prepared, memory: str | None) -> ModelTuning | None:
    """A model that is not searched yet; None where it cannot run: its own row says why."""
    try:
        target = opened.planner.target(model, "gpu", memory)
        planned = opened.planner.choice_in_force(model, "gpu", target, memory)
        plan, plan_file = opened.planner.plan(model, "gpu", planned.target(target), choice=planned.choice)
    except UnsupportedError:
        return None
    write_plan(plan, plan_file)
    return ModelTuning(model, PlanVersion(plan, plan_file, planned.choice))


def _started(opened: OpenUnit, lowered: Sequence[ModelTuning], clock: Callable[[], float]) -> list[ModelTuning]:
    """The models with the first starts of their default plans."""
    defaults = [default_plan(opened, tuned.prepared) if tuned.in_force.choice else tuned.in_force for tuned in lowered]
    plans = [
        (default.file(tuned.prepared), TestData(tuned.prepared, {}).inputs)
        for tuned, default in zip(lowered, defaults, strict=True)
    ]
    starts = start_from_source(opened, plans, clock)
    return [
        dataclasses.replace(tuned, first_load=start.load, first_s=start.seconds)
        for tuned, start in zip(lowered, starts, strict=True)
    ]


def default_plan(opened: OpenUnit, model: Prepared) -> PlanVersion:
    """The plan that a unit without any file of tuning runs, written."""
    target = opened.planner.target(model, "gpu")
    plan, plan_file = opened.planner.plan(model, "gpu", target, kind="gpu.default")
    write_plan(plan, plan_file)
    return PlanVersion(plan, plan_file, None)


def _chosen(
    opened: OpenUnit,
    tuned: ModelTuning,
    options: SearchOptions,
    schedule: TuningSchedule,
    choices: ChoiceOnce,
    earlier: EarlierModels,
) -> ModelTuning:
    """A model with the plan that is worth tuning: the cheapest one, where it is no slower than the one in force."""
    measuring, proof = schedule.selection()
    share = BUDGET_SHARE * min(len(tuned.prepared.precisions(tuned.target.fp16)), MOST_SHARES)
    budget = Budget(options.device_s * share, measuring, options.grows)
    in_force = opened.planner.artifact_files(tuned.prepared.deployment.library_name)
    tuned_file, kernels_file = (path if path.is_file() else None for path in in_force)
    files = TunedFiles(tuned_file, kernels_file)
    way = (options.fresh, options.shared, earlier)
    selecting = Selecting(opened, tuned.prepared, tuned.target, tuned.in_force, files, budget, proof, *way)
    key = (id(tuned.prepared), tuned.target, tuned.in_force.choice)
    return dataclasses.replace(tuned, chosen=choices.made(key, selecting.chosen))


def _search(
    opened: OpenUnit,
    key: Key,
    group: Sequence[ModelTuning],
    options: SearchOptions,
    shared: SharedSearch[list[ModelTuning]],
    schedule: TuningSchedule,
    plans: TrialPlans,
) -> list[ModelTuning]:
    """Searches models of one target, options and execution, together with the other units of that target."""
    launches = {step.tuning_key for tuned in group for step in tuned.plan.steps if step.tuning_key}
    if not launches:
        return list(group)
    budget_s = options.device_s * len(group)
    if options.tries and budget_s < (least_s := len(launches) * LEAST_TRIAL_S):
        usual_s = LEVELS[options.level].budget_s
        needed_s = usual_s if math.isfinite(usual_s) else LEVELS["quick"].budget_s
        untried = (
            f"a budget of {options.device_s:g} s is too small to try anything: {len(launches)} launches need "
            f"{least_s:.1f} s at the very least"
        )
        opened.progress.stage(untried)
        return [dataclasses.replace(tuned, untried=untried, needed_s=needed_s) for tuned in group]

    def bring() -> UnitTrials:
        opened.progress.stage(f"trial plan of {', '.join(tuned.prepared.name for tuned in group)}")
        models = [tuned.prepared for tuned in group]
        return trials_on(opened, models, group[0].target, group[0].options, group[0].prepared.name, plans)

    def lead(pool: DevicePool, trials: UnitTrials) -> list[ModelTuning]:
        return _led(
            opened,
            pool,
            trials,
            group,
            options,
            schedule.search(len(group), trials.round_s, _turn_s(opened, group, trials)),
        )

    return shared.result(key, opened.unit.name, bring, lead)


def _turn_s(opened: OpenUnit, group: Sequence[ModelTuning], trials: UnitTrials) -> float:
    """What a process of each way takes in a proof: of the default, of what was found, and of what is in force."""
    libraries = {tuned.prepared.deployment.library_name for tuned in group}
    is_tuned = any(opened.planner.artifact_files(library)[0].is_file() for library in libraries)
    return (2 + is_tuned) * trials.process_s


def _led(
    opened: OpenUnit,
    pool: DevicePool,
    trials: UnitTrials,
    group: Sequence[ModelTuning],
    options: SearchOptions,
    deadline: Deadline,
) -> list[ModelTuning]:
    target = group[0].target
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    provenance = {"date": date, "gpu_family": target.gpu_family}
    fingerprint = trials_fingerprint(target, group[0].prepared.settings.execution)
    known = (
        ()
        if options.fresh
        else foreign_trials(sorted(journal_file(opened.unit.soc).parent.glob("*.jsonl")), fingerprint)
    )
    relatives = relatives_of(target.gpu_family, known)
    with opened_journal(opened.unit.soc, fingerprint, provenance, options.fresh, options.shared) as journal:
        _say(journal, opened.progress.stage)
        budget_s = options.device_s * len(group)
        choosing_s = sum(tuned.chosen.figures.device_s for tuned in group if tuned.chosen)
        first_s = sum(tuned.first_s for tuned in group)
        left_s = max(min(budget_s - first_s - choosing_s - trials.prepare_s, deadline.left_s), 0.0)
        covering_s = trials.covering_s
        if options.grows and covering_s > left_s:
            opened.progress.stage(
                f"a round takes {trials.round_s:.2g} s here, building and running all {trials.prepare_s:.2g}: "
                f"the search may take {covering_s:.0f} s; --budget asks for another time"
            )
            left_s = covering_s
        runner = TrialRunner(
            pool, journal, Budget(left_s, deadline, options.grows), trials.surroundings, options.build_ahead_on(target)
        )
        level, expand = search_level(options.level, target), _expansion(target)
        peaks = next((tuned.chosen.peaks for tuned in group if tuned.chosen), NOT_MEASURED)
        outcome = search(trials.launches, expand, runner, level, opened.progress.search, relatives, peaks)
    needed_s = trials.prepare_s + max(outcome.needed_s, 0.0 if outcome.needed_s else covering_s)
    wanted_s = needed_budget_s(needed_s, trials.round_s, options.selects, _turn_s(opened, group, trials)) / len(group)
    needs_s = wanted_s if options.budget_s is not None and wanted_s > options.budget_s else None
    untried = (
        f"the budget of {budget_s:g} s was spent before any candidate was tried: building and running the defaults "
        f"takes {trials.prepare_s:.2g} s here, a round {trials.round_s:.2g} s"
    )
    if needs_s:
        opened.progress.stage(f"ten trials of each launch of weight would take --budget {needs_s:g} here")
    if outcome.states:
        opened.progress.stage(f"{outcome.states}; each candidate was compared with the default in the same state")
    if outcome.built_ahead:
        opened.progress.stage(str(outcome.built_ahead))
    is_short = options.tries and outcome.budget_spent
    found = [_with_verdicts(tuned, outcome, trials) for tuned in group]
    return [
        dataclasses.replace(
            tuned, untried=untried if is_short and tuned.verdicts and not tuned.tried else "", needed_s=needs_s
        )
        for tuned in found
    ]


def search_level(name: str, target: Target) -> SearchLevel:
    """The level on a target: the kernels' defaults were chosen on drivers for CPUs."""
    level = LEVELS[name]
    return level.of_chosen_defaults if runs_on_cpu(target.gpu_family) else level


def _expansion(target: Target) -> Expand:
    return lambda launch, preferred_multiple: space.candidate_costs(launch, target, preferred_multiple)


def _say(journal: Journal, say: Callable[[str], None]) -> None:
    if journal.set_aside:
        say(f"a journal of another version was set aside as {journal.set_aside}")
    if journal.resumed:
        say(f"{journal.resumed} trials are known from before")


def _with_verdicts(tuned: ModelTuning, outcome: SearchResult, trials: UnitTrials) -> ModelTuning:
    """A model with the verdicts of its own launches, out of those of all models that were searched together."""
    name = use_name(tuned.prepared)
    own = [verdict for verdict in outcome.verdicts if any(use.model == name for use in verdict.launch.uses)]
    keys = [verdict.launch.key for verdict in own]
    device_s = tuned.first_s + trials.prepare_s + sum(outcome.device_s.get(key, 0.0) for key in keys)
    count = sum(outcome.trials.get(key, 0) for key in keys)
    return dataclasses.replace(
        tuned,
        verdicts=tuple(own),
        trials=count,
        tried=sum(outcome.tried[key] for key in keys),
        device_s=device_s,
        states=outcome.states,
        built_ahead=outcome.built_ahead,
    )
