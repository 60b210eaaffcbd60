"""The search on one unit: models alike in target, options and execution share a trial plan; a SoC has one journal."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from farm.config.execution import Execution
from farm.jobs.fleet.unit import OpenUnit, write_plan
from farm.jobs.models.prepare import Prepared
from farm.jobs.tune.shared_search import SharedSearch
from farm.jobs.tune.trials import WORKSPACE, UnitTrials, trials_on, use_name
from farm.jobs.tune.wall_budget import WallBudget
from runtime.artifacts import fingerprint_of
from runtime.errors import UnsupportedError
from runtime.lowering.lower import Options
from runtime.plan.plan import Plan
from runtime.target import Target
from tuner import space
from tuner.device_pool import DevicePool
from tuner.journal import Journal, foreign_trials
from tuner.relatives import relatives_of
from tuner.search import LEVELS, Expand, SearchResult, search
from tuner.speed_states import SpeedStates
from tuner.trial_runner import TrialRunner
from tuner.verdict import LaunchVerdict

Key = tuple[Target, Options, Execution]  # models with the same are searched together

LEAST_TRIAL_S = 0.05  # device time of the fastest trials: a program is built, a launch repeated


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How thorough a search is.

    Attributes:
        budget_s: device time for each model, None for the level's own.
        memory: memory type, None for the unit's own.
        fresh: nothing is taken over from the journal.
        wall_s: wall time for each model, everything included; None for no limit beyond that of the search.
    """

    level: str = "quick"
    budget_s: float | None = None
    memory: str | None = None
    fresh: bool = False
    wall_s: float | None = None

    @property
    def seconds(self) -> float:
        """Device time for each model."""
        return LEVELS[self.level].budget_s if self.budget_s is None else self.budget_s


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What was found for one model: its plan, a verdict for each of its launches, and what that took.

    `trials` and `device_s` count what this search measured for the model's launches, also where others share them.
    `states` are the unit's two speeds during the search, None where it had one.
    """

    prepared: Prepared
    plan: Plan
    plan_file: Path
    verdicts: tuple[LaunchVerdict, ...]
    trials: int
    device_s: float
    states: SpeedStates | None = None

    @property
    def target(self) -> Target:
        """What the model was lowered to."""
        return self.plan.target

    @property
    def won(self) -> int:
        """Launches for which another candidate than the default was chosen."""
        return sum(verdict.won for verdict in self.verdicts)


def journal_file(soc: str) -> Path:
    """Where the trials of a SoC are remembered."""
    return WORKSPACE.folder / f"{soc}.jsonl"


def search_models(
    opened: OpenUnit,
    models: Sequence[Prepared],
    options: SearchOptions,
    shared: SharedSearch[list[Tuned]],
    wall: WallBudget | None = None,
) -> list[Tuned]:
    """Searches the launches of all models that run on the unit, within the wall time; the others are left out."""
    lowered = [tuned for model in models if (tuned := _lowered(opened, model, options.memory))]
    groups: dict[Key, list[Tuned]] = {}
    for tuned in lowered:
        key = (tuned.target, tuned.prepared.options(), tuned.prepared.settings.execution)
        groups.setdefault(key, []).append(tuned)
    searches = (_search(opened, key, group, options, shared, wall) for key, group in groups.items())
    return [tuned for group in searches for tuned in group]


def _lowered(opened: OpenUnit, model: Prepared, memory: str | None) -> Tuned | None:
    """A model that is not searched yet; None where it cannot run: its own row says why."""
    try:
        plan, plan_file = opened.plan(model, "gpu", opened.target(model, "gpu", memory))
    except UnsupportedError:
        return None
    write_plan(plan, plan_file)
    return Tuned(model, plan, plan_file, (), 0, 0.0)


def _search(
    opened: OpenUnit,
    key: Key,
    group: Sequence[Tuned],
    options: SearchOptions,
    shared: SharedSearch[list[Tuned]],
    wall: WallBudget | None,
) -> list[Tuned]:
    """Searches models of one target, options and execution, together with the other units of that target."""
    launches = {step.tuning_key for tuned in group for step in tuned.plan.steps if step.tuning_key}
    if not launches:
        return list(group)
    budget_s = options.seconds * len(group)
    if budget_s < (least_s := len(launches) * LEAST_TRIAL_S):
        opened.progress.stage(
            f"a budget of {budget_s:g} s is too small to try anything: {len(launches)} launches need {least_s:.1f} s "
            "at the very least; the defaults stay"
        )

    ends_s = wall.search_ends_s(len(group)) if wall else math.inf

    def bring() -> UnitTrials:
        opened.progress.stage(f"trial plan of {', '.join(tuned.prepared.name for tuned in group)}")
        return trials_on(opened, [tuned.prepared for tuned in group], group[0].target, group[0].prepared.name)

    def lead(pool: DevicePool, trials: UnitTrials) -> list[Tuned]:
        return _led(opened, pool, trials, group, options, ends_s)

    return shared.result(key, opened.unit.name, bring, lead)


def _led(
    opened: OpenUnit,
    pool: DevicePool,
    trials: UnitTrials,
    group: Sequence[Tuned],
    options: SearchOptions,
    ends_s: float,
) -> list[Tuned]:
    target = group[0].target
    provenance = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "family": target.gpu_family}
    execution = group[0].prepared.settings.execution
    valid_for = _trials_of(target, execution)
    known = () if options.fresh else foreign_trials(sorted(WORKSPACE.folder.glob("*.jsonl")), valid_for)
    relatives = relatives_of(target.gpu_family, known)
    with Journal(journal_file(opened.unit.soc), valid_for, provenance, options.fresh) as journal:
        _say(journal, opened.progress.stage)
        budget_s = options.seconds * len(group)
        left_s = min(budget_s - trials.prepare_s, ends_s - time.monotonic())
        if budget_s > 0 >= left_s:
            opened.progress.stage(
                f"the budget of {budget_s:g} s is spent: building and running the defaults once took "
                f"{trials.prepare_s:.1f} s; nothing else is tried"
            )
        runner = TrialRunner(pool, journal, max(left_s, 0.0), lambda: time.monotonic() >= ends_s)
        level, expand = LEVELS[options.level], _expansion(target)
        outcome = search(trials.launches, expand, runner, level, opened.progress.search, relatives)
    if outcome.states:
        opened.progress.stage(f"{outcome.states}; each candidate was compared with the default in the same state")
    return [_with_verdicts(tuned, outcome, trials) for tuned in group]


def _trials_of(target: Target, execution: Execution) -> str:
    """What trials in a journal are valid for: the device, and the hints under which it works faster or slower."""
    digest = fingerprint_of(target).digest
    return f"{digest},{execution.hints}" if execution.hints else digest


def _expansion(target: Target) -> Expand:
    return lambda launch, preferred_multiple: space.candidate_costs(launch, target, preferred_multiple)


def _say(journal: Journal, say: Callable[[str], None]) -> None:
    if journal.set_aside:
        say(f"a journal of another version was set aside as {journal.set_aside}")
    if journal.resumed:
        say(f"{journal.resumed} trials are known from before")


def _with_verdicts(tuned: Tuned, outcome: SearchResult, trials: UnitTrials) -> Tuned:
    """A model with the verdicts of its own launches, out of those of all models that were searched together."""
    name = use_name(tuned.prepared)
    own = [verdict for verdict in outcome.verdicts if any(use.model == name for use in verdict.launch.uses)]
    keys = [verdict.launch.key for verdict in own]
    device_s = trials.prepare_s + sum(outcome.device_s.get(key, 0.0) for key in keys)
    count = sum(outcome.trials.get(key, 0) for key in keys)
    return dataclasses.replace(tuned, verdicts=tuple(own), trials=count, device_s=device_s, states=outcome.states)
