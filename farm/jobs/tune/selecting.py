"""The choice over the whole graph on one unit: measure what it needs, select, prove it against the plan in force.

What is measured are launches that could still be in the cheapest plan, by the journal of the SoC, so that an
interrupted selection goes on where it stopped, on any unit of the SoC. The chosen plan takes the place of the one in
force for the search that follows only where whole processes of both, in turns, show it to be no slower.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from pathlib import Path

from farm.config.execution import Execution
from farm.jobs.choices.costs import KnownCosts, known_costs, trials_fingerprint
from farm.jobs.choices.goals import memory_goal
from farm.jobs.compare.interleaved import Effort, PlanFile, TunedFiles, measure_in_turns
from farm.jobs.fleet.unit import OpenUnit, write_plan
from farm.jobs.models import plans
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.tune.candidate_trials import CandidateTrials
from farm.jobs.tune.journals import opened_journal
from farm.jobs.validate import compare_outputs
from farm.model import fetch
from farm.rows.status import Status
from farm.rows.tune import ChoiceFigures, ChoiceOutcome
from runtime.errors import ModelError
from runtime.lowering.choice import GraphChoice
from runtime.lowering.launch import Launch
from runtime.lowering.lower import emit_launches
from runtime.plan.plan import Plan
from runtime.selection.candidates import Candidates, find_candidates
from runtime.selection.costs import cost_key, total_ms
from runtime.selection.memory import MemoryGoal
from runtime.selection.needed import needed_among
from runtime.selection.selection import GraphSelection, select_among
from runtime.selection.trials import nodes_with
from runtime.target import Target
from tuner.journal import Journal
from tuner.statistics import Ratio

BUDGET_SHARE = 0.25  # of the device time for a model: the rest is for tuning the kernels of the chosen plan
BATCH = 8  # launches of one trial plan: all of its programs are built before the first is timed
DOUBT = 3.0  # what nobody has timed may take so much longer than modelled, or so much less
LEAST_GAIN = 0.005  # predicted: less is no reason to change the plan
PROCESSES = Effort(processes=8)


@dataclasses.dataclass(frozen=True)
class PlanVersion:
    """A plan of a model with its file, and the choice that it was made by; None: the lowering's own rules."""

    plan: Plan
    plan_file: Path
    choice: GraphChoice | None

    def file(self, prepared: Prepared) -> PlanFile:
        """The plan as it is loaded: as the deployment file of the model says."""
        settings = prepared.settings
        return PlanFile(self.plan, self.plan_file, settings.limit_opencl_kernel_time, settings.execution)


@dataclasses.dataclass(frozen=True)
class Budget:
    """Device seconds for measuring candidates, and when measuring and proving must have ended, by the clock."""

    device_s: float
    measured_by_s: float = math.inf
    proved_by_s: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def left_s(self, spent_s: float) -> float:
        """What is left for measuring when so many device seconds are spent."""
        return min(self.device_s - spent_s, self.measured_by_s - self.clock())


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What came of a choice: the plan to tune, and what is told of it.

    `most_ratio`: how many times the time of the plan in force it may take, more than 1 where it saves memory for it.
    """

    version: PlanVersion
    figures: ChoiceFigures
    most_ratio: float = 1.0


@dataclasses.dataclass(frozen=True)
class _Spent:
    """What measuring took, and how many launches of the plan that may be the cheapest are `left` unmeasured."""

    trials: int
    device_s: float
    left: int


class ChoiceOnce:
    """Makes each choice once, by the first unit that wants it; the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._made: dict[Hashable, Chosen] = {}

    def made(self, key: Hashable, make: Callable[[], Chosen]) -> Chosen:
        """The choice for a key; where its maker fails, the next unit makes it."""
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


@dataclasses.dataclass(frozen=True)
class Selecting:
    """A model on a unit, with the plan in force there and the artifacts that this is loaded with."""

    opened: OpenUnit
    prepared: Prepared
    target: Target
    in_force: PlanVersion
    files: TunedFiles
    budget: Budget
    fresh: bool = False
    shared: Path | None = None

    def chosen(self) -> Chosen:
        """Measures, selects, and proves."""
        name = self.prepared.name
        self.opened.progress.stage(f"{name}: where and how each operator runs")
        candidates = find_candidates(self.prepared.graph, self.target, self.prepared.options())
        options = self.prepared.options(choice=self.in_force.choice)
        before = emit_launches(self.prepared.graph, self.target, options).launches
        known, spent = self._measured(candidates, before)
        selection = select_among(candidates, known.costs(DOUBT), self._goal)
        before_ms = total_ms(before, known.costs())
        figures = ChoiceFigures(
            outcome=ChoiceOutcome.SAME,
            predicted_ms=selection.milliseconds,
            predicted_before_ms=before_ms,
            gap=selection.gap,
            places=dict(Counter(str(chosen) for chosen in selection.choice.nodes.values())),
            origins=dict(Counter(origin for node in selection.nodes.values() for origin in node.origins)),
            conversions=len(selection.conversions),
            trials=spent.trials,
            device_s=spent.device_s,
            budget_s=self.budget.device_s if math.isfinite(self.budget.device_s) else None,
        )
        if selection.milliseconds <= before_ms * (1.0 - LEAST_GAIN) or self._saves_memory(selection):
            return self._proved(selection, figures)
        reason = f"the budget ended with {spent.left} launches unmeasured; the next call goes on" if spent.left else ""
        same = {"reason": reason, "predicted_ms": min(selection.milliseconds, before_ms)}
        return Chosen(self.in_force, figures.model_copy(update=same))

    @property
    def _goal(self) -> MemoryGoal:
        return memory_goal(self.prepared.settings)

    @property
    def _most_ratio(self) -> float:
        """How many times the time of the plan in force the chosen one may take, for the memory that is asked for."""
        limit_bytes = self._goal.limit_bytes
        if limit_bytes is not None and self.in_force.plan.peak_bytes > limit_bytes:
            return math.inf
        return 1.0 + (self._goal.slowdown or 0.0)

    def _saves_memory(self, selection: GraphSelection) -> bool:
        """Whether memory is asked for that the plan in force does not save."""
        if self._most_ratio == 1.0:
            return False
        options = self.prepared.options(choice=selection.choice)
        return plans.lowered(self.prepared, self.target, options).peak_bytes < self.in_force.plan.peak_bytes

    def _measured(self, candidates: Candidates, before: Sequence[Launch]) -> tuple[KnownCosts, _Spent]:
        """The costs after all was measured that is needed, or the budget was spent.

        At last come the launches of the plan in force, for a prediction to compare with.
        """
        execution = self.prepared.settings.execution
        known = KnownCosts(self.target, {}) if self.fresh else known_costs(self.target, execution)
        for refused in known.refused:
            self.opened.progress.stage(f"not used for costs: {refused}")
        with self._journal(execution) as journal:
            trials = CandidateTrials(
                self.opened,
                self.target,
                self.prepared.options(),
                execution,
                self.prepared.name,
                journal,
                lambda: self.budget.left_s(trials.device_s),
                dict(known.measured),
            )
            if journal.set_aside:
                self.opened.progress.stage(f"a journal of another version was set aside as {journal.set_aside}")
            asked: set[str] = set()
            while new := self._needed(candidates, known, asked):
                if trials.is_over():
                    break
                self.opened.progress.stage(f"{self.prepared.name}: measuring {len(new[:BATCH])} of {len(new)} launches")
                asked |= set(new[:BATCH])
                trials.time(nodes_with(new[:BATCH], candidates))
                known = known.with_measured(trials.ms)
            left = len(new)
            unknown = [key for key in map(cost_key, before) if key not in known.measured and key not in asked]
            for start in range(0, len(unknown), BATCH):
                trials.time(nodes_with(unknown[start : start + BATCH], candidates))
            known = known.with_measured(trials.ms)
        return known, _Spent(trials.trials, trials.device_s, left)

    def _needed(self, candidates: Candidates, known: KnownCosts, asked: Collection[str]) -> list[str]:
        """Keys of launches to measure next: of the cheapest plan, if all others cost no more than their bound."""
        needed = needed_among(candidates, known.measured, known.unmeasured(1.0 / DOUBT), self._goal)
        return [each.key for each in needed if each.key not in asked]

    def _journal(self, execution: Execution) -> Journal:
        fingerprint, provenance = trials_fingerprint(self.target, execution), {"gpu_family": self.target.gpu_family}
        return opened_journal(self.opened.unit.soc, fingerprint, provenance, self.fresh, self.shared)

    def _proved(self, selection: GraphSelection, figures: ChoiceFigures) -> Chosen:
        """The chosen plan where it is as fast as the one in force, measured; else that one."""
        try:
            plan, plan_file = self.opened.plan(
                self.prepared, "gpu", self.target, choice=selection.choice, kind="gpu.chosen"
            )
        except ModelError as error:
            return self._refused(figures, str(error))
        write_plan(plan, plan_file)
        new = PlanVersion(plan, plan_file, selection.choice)
        self.opened.progress.stage(f"{self.prepared.name}: the plan in force against the chosen one")
        effort = dataclasses.replace(PROCESSES, ends_s=self.budget.proved_by_s, clock=self.budget.clock)
        ways = [dataclasses.replace(self.files, plan=self.in_force.file(self.prepared)), TunedFiles(self.files.tuned)]
        data = TestData(self.prepared, fetch.Fetcher(self.prepared.deployment).validation_inputs(self.prepared.name))
        (before, chosen), throttling = measure_in_turns(self.opened, new.file(self.prepared), ways, data, effort)
        validation = compare_outputs(self.prepared, "gpu", data.expected, chosen.outputs)
        ratio = chosen.over(before)
        if ratio:
            figures = figures.model_copy(update={"time_ratio": ratio.value, "time_ratio_ci": (ratio.low, ratio.high)})
        if validation.ending.status != Status.OK:
            return self._refused(figures, validation.ending.reason)
        return self._decided(new, figures, ratio, throttling.throttled)

    def _decided(self, new: PlanVersion, figures: ChoiceFigures, ratio: Ratio | None, throttled: str) -> Chosen:
        if throttled or ratio is None:
            reason = f"heat spoiled the comparison: {throttled}" if throttled else "too few processes ran in the budget"
            undecided = figures.model_copy(update={"outcome": ChoiceOutcome.UNDECIDED, "reason": reason})
            return Chosen(self.in_force, undecided)
        if ratio.value > self._most_ratio:
            return self._refused(figures, f"measured {ratio.value:.3f} times the time of the plan in force")
        return Chosen(new, figures.model_copy(update={"outcome": ChoiceOutcome.CHOSEN}), self._most_ratio)

    def _refused(self, figures: ChoiceFigures, reason: str) -> Chosen:
        refused = figures.model_copy(update={"outcome": ChoiceOutcome.REFUSED, "reason": reason})
        return Chosen(self.in_force, refused)
