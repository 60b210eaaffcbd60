"""The choice over the whole graph on one unit: measure what it needs, select, prove it against the plan in force.

What is measured are launches that could still be in the cheapest plan, by the journal of the SoC, so that an
interrupted selection goes on where it stopped, on any unit of the SoC. The chosen plan takes the place of the one in
force for the search that follows only where whole processes of both, in turns, show it to be no slower.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path

from farm.jobs.choices.costs import KnownCosts, known_costs, trials_fingerprint
from farm.jobs.choices.model_choice import chosen_data_type, memory_goal, ms_by_data_type
from farm.jobs.compare.interleaved import Effort, Pairs, PlanFile, TunedFiles, measure_in_turns
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models import plans
from farm.jobs.models.prepare import Prepared, data_types, plan_data_type
from farm.jobs.tune.accuracy import Accuracy
from farm.jobs.tune.built_programs import BUILT_PROGRAMS
from farm.jobs.tune.candidate_trials import CandidateTrials
from farm.jobs.tune.journals import opened_journal
from farm.jobs.tune.peak_trials import PeakTrials
from farm.jobs.validate import compare_outputs
from farm.rows.status import Status
from farm.rows.tune import ChoiceFigures, ChoiceOutcome
from runtime.errors import ModelError
from runtime.lowering.choice import GraphChoice
from runtime.lowering.launch import Launch
from runtime.lowering.lower import emit_launches
from runtime.peaks import NOT_MEASURED, MeasuredPeaks
from runtime.plan.plan import Plan
from runtime.selection.calibration import by_key
from runtime.selection.candidates import Candidates
from runtime.selection.costs import cost_key, total_ms
from runtime.selection.memory import MemoryGoal
from runtime.selection.precisions import (
    allowed_precisions,
    candidates_in_each,
    chosen_target,
    needed_in_cheapest,
    select_in_each,
)
from runtime.selection.selection import GraphSelection
from runtime.selection.trials import nodes_with
from runtime.target import Target, runs_on_cpu
from runtime.types import Precisions
from tuner.budget import NO_DEADLINE, Budget, Deadline
from tuner.journal import Journal

BUDGET_SHARE = 0.25  # of the device time for a model: the rest is for tuning the kernels of the chosen plan
MOST_SHARES = 2  # of that size, one for each precision that is allowed
BATCH = 8  # launches timed before the next look for the cheapest plan, at the least: half of those that it lacks
OWN_BATCH = 16  # of the plan in force, whose programs are built
DOUBT = 3.0  # what nobody has timed may take so much longer than modelled, or so much less
EMULATED = 4.0  # times as long to move a byte through an image as through a buffer: the driver computes its address
PLANS = 2  # a budget that may grow covers the launches of the plan in force, and as many others
LEAST_PEAKS_S = 0.1  # device time in which it is worth beginning with the peaks
PEAKS_SHARE = 0.2  # of that time at most, for the peaks that the model is made with
LEAST_GAIN = 0.005  # predicted: less is no reason to change the plan
PLAIN_GAIN = 0.03  # the same on drivers for CPUs, where the model alone chooses within 1 % of the fastest algorithms
LEAD = 3  # pairs of processes more for one plan than for the other: on which side a ratio is, not how large
PROCESSES = Effort(processes=8, least=LEAD)


@dataclasses.dataclass(frozen=True)
class PlanVersion:
    """A plan of a model with its file, and the choice that it was made by; None: the lowering's own rules."""

    plan: Plan
    plan_file: Path
    choice: GraphChoice | None

    @property
    def lowering(self) -> tuple[GraphChoice | None, Precisions]:
        """The choice and precisions that tell this plan from other plans of the model on the unit."""
        return self.choice, self.plan.precisions

    def file(self, prepared: Prepared) -> PlanFile:
        """The plan as it is loaded: as the deployment file of the model says."""
        settings = prepared.settings
        return PlanFile(self.plan, self.plan_file, settings.limit_opencl_kernel_time, settings.execution)


def covering(budget: Budget, candidates: int, slowest_s: float, spent_s: float) -> Budget:
    """With time for so many candidates if each takes as long as the slowest so far, where it may grow.

    As long as none was timed there is time for one, whatever has been spent before.
    """
    return budget.covering(spent_s + candidates * slowest_s if slowest_s else math.inf)


@dataclasses.dataclass(frozen=True)
class SelectionOutcome:
    """What came of a choice: the plan to tune, and what is told of it.

    `most_ratio`: how many times the time of the plan in force it may take, more than 1 where it saves memory for it.
    `peaks`: what the unit's SoC was measured to do at most.
    """

    version: PlanVersion
    figures: ChoiceFigures
    most_ratio: float = 1.0
    peaks: MeasuredPeaks = NOT_MEASURED


@dataclasses.dataclass(frozen=True)
class _Spent:
    """What measuring took of `granted_s`, and how many launches of the plan that may be the cheapest are `left`
    unmeasured.
    """

    trials: int = 0
    device_s: float = 0.0
    left: int = 0
    granted_s: float = math.inf

    def and_also(self, trials: Collection[CandidateTrials]) -> _Spent:
        """With what further trials took."""
        counts, seconds = ([each.trials for each in trials], [each.device_s for each in trials])
        return _Spent(self.trials + sum(counts), self.device_s + sum(seconds))


class ChoiceOnce:
    """Makes each choice once, by the first unit that wants it; the others wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._made: dict[Hashable, SelectionOutcome] = {}

    def made(self, key: Hashable, make: Callable[[], SelectionOutcome]) -> SelectionOutcome:
        """The choice for a key; where its maker fails, the next unit makes it."""
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]


@dataclasses.dataclass
class EarlierModels:
    """What the choices of earlier models in a call have shown on a unit, to which each model adds.

    `launches`: those that may be chosen, by key: what is known of them tells how far off the model is. `known`: what
    was measured, for a model that takes over nothing from before the call.
    """

    launches: dict[str, Launch] = dataclasses.field(default_factory=dict)
    known: dict[str, KnownCosts] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Selecting:
    """A model on a unit, with the plan in force there and the artifacts that this is loaded with.

    `budget` is for measuring candidates, `proof` when the proof of what was chosen must have ended.
    """

    opened: OpenUnit
    prepared: Prepared
    target: Target
    in_force: PlanVersion
    files: TunedFiles
    budget: Budget
    proof: Deadline = NO_DEADLINE
    fresh: bool = False
    shared: Path | None = None
    earlier: EarlierModels = dataclasses.field(default_factory=EarlierModels)

    def chosen(self) -> SelectionOutcome:
        """Measures the peaks, then as `_chosen` says."""
        known, spent = self._with_peaks(self._known())
        self.earlier.known[self._fingerprint] = known
        return dataclasses.replace(self._chosen(known, spent), peaks=known.peaks)

    def _chosen(self, known: KnownCosts, spent: _Spent) -> SelectionOutcome:
        """Measures, selects, and proves; where outputs are wrong, the choice is among plans of other precisions.

        Where a mixed plan is not accurate enough, the next one has to have less noise, or one precision.
        """
        self.opened.progress.stage(f"{self.prepared.name}: where and how each operator runs")
        candidates = self._candidates(known.peaks)
        options = self.prepared.options(choice=self.in_force.choice)
        before = emit_launches(self.prepared.graph, self.target, options).launches
        again: set[str] = set()
        while True:
            known, spent = self._measured(candidates, before, known, spent)
            found = select_in_each(candidates, known.costs(DOUBT), self._goal)
            precisions, selection = next(iter(found.items()))
            figures = self._figures(found, total_ms(before, known.costs()), spent)
            if spent.left and not known.family and not known.measured:
                reason = "the budget ended before any launch was timed, and the model alone decides nothing"
                untimed = {"outcome": ChoiceOutcome.UNDECIDED, "reason": reason}
                return SelectionOutcome(self.in_force, figures.model_copy(update=untimed))
            if not self._is_worth_it(precisions, selection, figures):
                return self._same(figures, spent.left)
            if doubtful := self._differing(precisions, selection, before, again):
                known, spent = self._timed_again(candidates[precisions], precisions, doubtful, before, known, spent)
                again |= doubtful
                continue
            try:
                new = self._lowered(precisions, selection)
            except ModelError as error:
                return self._refused(figures, str(error))
            if len(candidates) > 1 and not self._is_accurate(precisions, new):
                candidates = self._accuracy.among(candidates)
                continue
            return self._proved(new, figures)

    def _differing(
        self, precisions: Precisions, selection: GraphSelection, before: Sequence[Launch], again: set[str]
    ) -> set[str]:
        """The launches that one of a choice and the plan in force has, but for those that were timed again before."""
        target, options = chosen_target(self.target, precisions, selection.choice), self.prepared.options()
        options = dataclasses.replace(options, choice=selection.choice)
        try:
            chosen = emit_launches(self.prepared.graph, target, options).launches
        except ModelError:
            return set()
        return ({cost_key(each) for each in chosen} ^ {cost_key(each) for each in before}) - again

    def _timed_again(
        self,
        candidates: Candidates,
        precisions: Precisions,
        keys: Collection[str],
        before: Sequence[Launch],
        known: KnownCosts,
        spent: _Spent,
    ) -> tuple[KnownCosts, _Spent]:
        """The costs after these launches were timed once more, side by side: of many, the luckiest seem fastest.

        Of the plan in force the shorter time counts, of what would take its place the longer one.
        """
        trials = self._trials(precisions, Journal(None, self._fingerprint), dataclasses.replace(known, measured={}))
        budget = self.budget.covering(math.inf)
        trials.left_s = lambda: budget.left_s(spent.device_s + trials.device_s)
        trials.time(nodes_with(keys, candidates), OWN_BATCH)
        own = {cost_key(launch) for launch in before}
        times = {key: (ms, known.measured.get(key, ms)) for key, ms in trials.ms.items()}
        counting = {key: min(both) if key in own else max(both) for key, both in times.items()}
        return known.with_measured(counting), dataclasses.replace(spent, device_s=spent.device_s + trials.device_s)

    @property
    def _precisions(self) -> Precisions:
        """The precisions that the deployment file allows on this unit."""
        return self.prepared.precisions(self.target.fp16)

    @property
    def _now(self) -> Precisions:
        """Of `allowed_precisions`, those of the plan in force."""
        now = self.in_force.plan.precisions
        return now if len(now) < 2 else tuple(sorted(self._precisions))

    def _candidates(self, peaks: MeasuredPeaks) -> dict[Precisions, Candidates]:
        """Those of all precisions that the file allows, but for what the plan in force has shown to be wrong.

        None is on images where the device emulates these.
        """
        dropped = self._accuracy.dropped if self._is_wrong_now else {}
        allowed = (each for each in allowed_precisions(self._precisions) if each not in dropped)
        target = self.target
        if peaks.image_slowdown >= EMULATED:
            target = dataclasses.replace(target, image2d_max_width=0)
        found = candidates_in_each(self.prepared.graph, target, allowed, self.prepared.options())
        return self._accuracy.among(found)

    @functools.cached_property
    def _accuracy(self) -> Accuracy:
        measuring = self.budget.deadline
        halfway = dataclasses.replace(measuring, at_s=(measuring.at_s + self.proof.at_s) / 2)
        return Accuracy(self.opened, self.prepared, halfway)

    @functools.cached_property
    def _is_wrong_now(self) -> bool:
        """Whether the outputs of the plan in force are wrong, and other precisions are allowed."""
        return len(self._precisions) > 1 and not self._is_accurate(self._now, self.in_force)

    def _is_accurate(self, precisions: Precisions, version: PlanVersion) -> bool:
        return self._accuracy.is_enough(precisions, version.plan, version.plan_file, version.choice)

    def _figures(self, found: Mapping[Precisions, GraphSelection], before_ms: float, spent: _Spent) -> ChoiceFigures:
        """What is told of the cheapest choice: the first that was found."""
        precisions, selection = next(iter(found.items()))
        figures = ChoiceFigures(
            outcome=ChoiceOutcome.SAME,
            predicted_ms=selection.milliseconds,
            predicted_before_ms=before_ms,
            gap=selection.gap,
            places=dict(Counter(str(chosen) for chosen in selection.choice.nodes.values())),
            origins=dict(Counter(origin for node in selection.nodes.values() for origin in node.origins)),
            conversions=len(selection.conversions),
            casts=sum(each.is_cast for each in selection.conversions),
            trials=spent.trials,
            device_s=spent.device_s,
            budget_s=spent.granted_s if math.isfinite(spent.granted_s) else None,
        )
        if len(self._precisions) < 2:
            return figures
        of_precisions = {
            "data_type": chosen_data_type(precisions, selection),
            "by_data_type": {} if spent.left else ms_by_data_type(found),
            "dropped": {data_types(each): reason for each, reason in self._accuracy.dropped.items()},
            "inaccurate": tuple(self._accuracy.inaccurate),
        }
        return figures.model_copy(update=of_precisions)

    def _is_worth_it(self, precisions: Precisions, selection: GraphSelection, figures: ChoiceFigures) -> bool:
        """Whether the choice promises to be faster than the plan in force, or saves memory, or that one is wrong."""
        if self._is_faster(selection.milliseconds, figures.predicted_before_ms or 0.0) or self._is_wrong_now:
            return True
        return self._most_ratio > 1.0 and self._saves_memory(precisions, selection)

    @property
    def _goal(self) -> MemoryGoal:
        return memory_goal(self.prepared.settings)

    @property
    def _most_ratio(self) -> float:
        """How many times the time of the plan in force the chosen one may take, for memory that is asked for.

        Any, where the one in force is wrong.
        """
        limit_bytes = self._goal.limit_bytes
        breaks_limit = limit_bytes is not None and self.in_force.plan.peak_bytes > limit_bytes
        return math.inf if breaks_limit or self._is_wrong_now else 1.0 + (self._goal.slowdown or 0.0)

    def _saves_memory(self, precisions: Precisions, selection: GraphSelection) -> bool:
        """Returns whether the chosen plan takes less memory than the plan in force."""
        options = self.prepared.options(choice=selection.choice)
        target = chosen_target(self.target, precisions, selection.choice)
        peak_bytes = plans.lowered(self.prepared, target, options).peak_bytes
        return peak_bytes < self.in_force.plan.peak_bytes

    def _known(self) -> KnownCosts:
        if self.fresh:
            return self.earlier.known.get(self._fingerprint, KnownCosts(self.target, {}))
        known = known_costs(self.target, self.prepared.settings.execution)
        for refused in known.refused:
            self.opened.progress.stage(f"not used for costs: {refused}")
        return known

    def _with_peaks(self, known: KnownCosts) -> tuple[KnownCosts, _Spent]:
        """With the peaks of the device, measured where the journal does not have them, and what that took."""
        execution = self.prepared.settings.execution
        share = dataclasses.replace(self.budget, device_s=PEAKS_SHARE * self.budget.device_s)
        if share.device_s < LEAST_PEAKS_S:
            return known, _Spent()
        with self._journal() as journal:
            known_ms, clock = dict(known.best_ms), self.budget.deadline.clock
            trials = PeakTrials(self.opened, self.target, execution, journal, share.left_s, known_ms, clock)
            peaks = trials.measured()
        known = dataclasses.replace(known, peaks=peaks, best_ms=known_ms)
        return known, _Spent(device_s=trials.device_s)

    def _measured(
        self, candidates: Mapping[Precisions, Candidates], before: Sequence[Launch], known: KnownCosts, spent: _Spent
    ) -> tuple[KnownCosts, _Spent]:
        """The costs after all was measured that is needed, or the budget was spent.

        First come the launches of the plan in force: they show how far off the model is, and what there is to gain.
        """
        self.earlier.launches.update(by_key(launch for each in candidates.values() for launch in each.launches()))
        with self._journal() as journal:
            trials = {precisions: self._trials(precisions, journal, known) for precisions in candidates}

            def total() -> _Spent:
                return spent.and_also(trials.values())

            def granted() -> Budget:
                slowest_s = max((each.pace.slowest_s for each in trials.values()), default=0.0)
                count = PLANS * len({cost_key(launch) for launch in before})
                return covering(self.budget, count, slowest_s, spent.device_s)

            for each in trials.values():
                each.left_s = lambda: granted().left_s(total().device_s)
            in_force, own = self._now, [key for key in map(cost_key, before) if key not in known.measured]
            if in_force in candidates:
                trials[in_force].time(nodes_with(own, candidates[in_force]), OWN_BATCH)
                known = known.with_measured(trials[in_force].ms)
            asked: set[str] = set()
            while True:
                known = known.calibrated(self.earlier.launches)
                precisions, new = self._needed(candidates, known, asked, total_ms(before, known.costs()))
                if not new or trials[precisions].is_over():
                    break
                batch = new[: max(BATCH, len(new) // 2)]
                self.opened.progress.stage(f"{self.prepared.name}: measuring {len(batch)} of {len(new)} launches")
                asked |= set(batch)
                trials[precisions].time(nodes_with(batch, candidates[precisions]))
                known = known.with_measured(trials[precisions].ms)
        known = self.earlier.known[self._fingerprint] = known.calibrated(self.earlier.launches)
        granted_s = granted().device_s
        granted_s = granted_s if math.isfinite(granted_s) else spent.granted_s  # where nothing new was timed
        return known, dataclasses.replace(total(), left=len(new), granted_s=granted_s)

    def _trials(self, precisions: Precisions, journal: Journal, known: KnownCosts) -> CandidateTrials:
        return CandidateTrials(
            self.opened,
            dataclasses.replace(self.target, precision=max(precisions)),
            self.prepared.options(),
            self.prepared.settings.execution,
            self.prepared.name,
            journal,
            lambda: 0.0,
            dict(known.measured),
            self.budget.deadline.clock,
        )

    def _needed(
        self, candidates: Mapping[Precisions, Candidates], known: KnownCosts, asked: Collection[str], before_ms: float
    ) -> tuple[Precisions, list[str]]:
        """Keys of launches to measure next: of the cheapest plan, if all others cost no more than their bound.

        None where that plan would be no reason to leave the one in force either.
        """
        bound = known.bound(DOUBT)
        precisions, found = needed_in_cheapest(candidates, known.measured, bound, self._goal)
        if self._most_ratio <= 1.0 and not self._is_faster(found.milliseconds, before_ms):
            return precisions, []
        return precisions, [each.key for each in found.needed if each.key not in asked]

    def _is_faster(self, milliseconds: float, before_ms: float) -> bool:
        """Whether a plan would be by so much faster than the one in force that it is worth a proof."""
        least_gain = PLAIN_GAIN if runs_on_cpu(self.target.gpu_family) else LEAST_GAIN
        return milliseconds <= before_ms * (1.0 - least_gain)

    @property
    def _fingerprint(self) -> str:
        return trials_fingerprint(self.target, self.prepared.settings.execution)

    def _journal(self) -> Journal:
        provenance = {"gpu_family": self.target.gpu_family}
        journal = opened_journal(self.opened.unit.soc, self._fingerprint, provenance, self.fresh, self.shared)
        if journal.set_aside:
            self.opened.progress.stage(f"a journal of another version was set aside as {journal.set_aside}")
        return journal

    def _lowered(self, precisions: Precisions, selection: GraphSelection) -> PlanVersion:
        """The chosen plan, written; ModelError where it cannot be made."""
        target = chosen_target(self.target, precisions, selection.choice)
        plan, plan_file = self.opened.planner.plan(
            self.prepared, "gpu", target, choice=selection.choice, kind="gpu.chosen"
        )
        write_plan(plan, plan_file)
        return PlanVersion(plan, plan_file, selection.choice)

    def _proved(self, new: PlanVersion, figures: ChoiceFigures) -> SelectionOutcome:
        """The chosen plan where it is as fast as the one in force, measured; else that one."""
        self.opened.progress.stage(f"{self.prepared.name}: the plan in force against the chosen one")
        effort = dataclasses.replace(PROCESSES, deadline=self.proof, is_settled=self._is_certain)
        built = BUILT_PROGRAMS.of(self.opened).file
        in_force = dataclasses.replace(self.files, plan=self.in_force.file(self.prepared), built=built)
        ways = [in_force, TunedFiles(self.files.tuned, built=built)]
        (before, chosen), throttling = measure_in_turns(
            self.opened, new.file(self.prepared), ways, self._accuracy.data, effort
        )
        validation = compare_outputs(self.prepared, new.plan.target, self._accuracy.data.expected, chosen.outputs)
        pairs, ratio = chosen.pairs_over(before), chosen.over(before)
        figures = figures.model_copy(update={"time_ratio": statistics.median(pairs)})
        if ratio:
            figures = figures.model_copy(update={"time_ratio": ratio.value, "time_ratio_ci": (ratio.low, ratio.high)})
        if validation.ending.status != Status.OK:
            return self._refused(figures, validation.ending.reason)
        return self._decided(new, figures, len(pairs), throttling.throttled)

    def _is_certain(self, ways: Sequence[Pairs]) -> bool:
        """Whether pairs leave little doubt on which side of what is allowed the chosen plan is.

        It is proved against the default again, once it is tuned.
        """
        (pairs,) = ways
        slower = sum(ratio > self._most_ratio for ratio in pairs)
        return abs(len(pairs) - 2 * slower) >= LEAD

    def _decided(self, new: PlanVersion, figures: ChoiceFigures, pairs: int, throttled: str) -> SelectionOutcome:
        if throttled or pairs < LEAD:
            reason = f"heat spoiled the comparison: {throttled}" if throttled else "too few processes ran in the budget"
            undecided = figures.model_copy(update={"outcome": ChoiceOutcome.UNDECIDED, "reason": reason})
            return SelectionOutcome(self.in_force, undecided)
        ratio = figures.time_ratio or 1.0
        if ratio > self._most_ratio:
            return self._refused(figures, f"measured {ratio:.3f} times the time of the plan in force")
        return SelectionOutcome(new, figures.model_copy(update={"outcome": ChoiceOutcome.CHOSEN}), self._most_ratio)

    def _same(self, figures: ChoiceFigures, left: int) -> SelectionOutcome:
        """The plan in force, where none is cheaper, or none is known to be with so many launches left unmeasured."""
        reason = f"the budget ended with {left} launches unmeasured; the next call goes on" if left else ""
        same = {
            "reason": reason,
            "predicted_ms": min(figures.predicted_ms or 0.0, figures.predicted_before_ms or math.inf),
        }
        if figures.data_type:
            same["data_type"] = plan_data_type(self.in_force.plan)
        return SelectionOutcome(self.in_force, figures.model_copy(update=same))

    def _refused(self, figures: ChoiceFigures, reason: str) -> SelectionOutcome:
        refused = figures.model_copy(update={"outcome": ChoiceOutcome.REFUSED, "reason": reason})
        return SelectionOutcome(self.in_force, refused)
