"""The search: defaults first, then each kernel's family where the time is, then the re-test of every launch's best."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from runtime.lowering.trials import TrialLaunch
from tuner.exhaustive import Exhaustive
from tuner.family import Family, Task, timed
from tuner.family_scheduler import Strategy, take_turns
from tuner.halving import Halving
from tuner.ranking import Ranking
from tuner.retest import Retest
from tuner.space import default_candidate
from tuner.trial import Candidate, Status
from tuner.trial_runner import BudgetSpent, Lab, Observer, Progress, unobserved
from tuner.verdict import Verdict, confirmed, default_kept, nothing_runs

Expand = Callable[[TrialLaunch, int], Mapping[Candidate, float]]
"""Candidates of a launch with guessed costs, given the preferred multiple of the work-group size (0: unknown)."""

_RETEST_SHARE = 0.2  # of a budget, kept back for the re-test
_UNEXPLORED = "too small a part of the time, or of the budget, to try others"
_RETEST_UNITS = 2.0  # work of a launch's re-test, in programs tried


@dataclasses.dataclass(frozen=True)
class Level:
    """How thorough a search is.

    Attributes:
        minor: below this share of the models' time a launch gets no build of its own.
        budget_s: device time for each model, unless the user says otherwise.
    """

    strategy: Strategy
    retest: Retest
    minor: float
    budget_s: float


_QUICK = Halving(keep=0.34, first=1, last=8)
_NORMAL = Halving(keep=0.5, first=2, last=16)

LEVELS: Mapping[str, Level] = {
    "quick": Level(_QUICK, Retest(finalists=3, rounds=8), minor=0.002, budget_s=18.0),
    "normal": Level(_NORMAL, Retest(finalists=4, rounds=10), minor=0.0002, budget_s=180.0),
    "exhaustive": Level(Exhaustive(_NORMAL), Retest(finalists=8, rounds=12), minor=0.0, budget_s=math.inf),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a search found, a verdict for each launch in the given order, and what it took.

    `trials` and `device_s` go by tuning key and count new trials only; `statuses` counts remembered ones too.
    """

    verdicts: tuple[Verdict, ...]
    trials: Mapping[str, int]
    device_s: Mapping[str, float]
    statuses: Mapping[Status, int]
    budget_spent: bool


def search(
    launches: Sequence[TrialLaunch], expand: Expand, lab: Lab, level: Level, observe: Observer = unobserved
) -> Outcome:
    """Finds the best candidate of every launch within the lab's budget.

    Launches are what models run, each with its uses; one without a use weighs as if used once. Raises what `measure`
    raises: all trials until then are in the journal.
    """
    run = _Search(launches, expand, lab, level, observe)
    verdicts = run.verdicts()
    return Outcome(verdicts, dict(lab.trials), dict(lab.device_s), dict(lab.statuses), lab.spent_s >= lab.budget_s)


class _Search:
    def __init__(
        self, launches: Sequence[TrialLaunch], expand: Expand, lab: Lab, level: Level, observe: Observer
    ) -> None:
        self._launches = launches
        self._expand, self._lab, self._level, self._observe = expand, lab, level, observe
        self._rankings = {launch.kernel.name: Ranking() for launch in launches}
        self._done, self._planned, self._stage = 0.0, float(len(launches)), "defaults"

    def verdicts(self) -> tuple[Verdict, ...]:
        """Runs all three stages; the heaviest launches are re-tested first."""
        self._learn_from_journal(own=False)
        tasks = self._time_defaults()
        self._explore(tasks)
        self._learn_from_journal(own=True)
        self._lab.limit_s = self._lab.budget_s
        found: dict[str, Verdict] = {}
        heaviest_first = sorted(tasks, key=lambda task: -task.weight)
        self._lab.crew.each(functools.partial(self._decide, task, found) for task in heaviest_first)
        untimed = "the budget was spent before it was timed"
        return tuple(found.get(each.key) or default_kept(each, math.nan, untimed) for each in self._launches)

    def _learn_from_journal(self, own: bool) -> None:
        """What earlier runs saw of other launches of these kernels or, after exploring, of these launches themselves.

        These launches' trials are not given away before: each counts when it is asked for, so that a run that was
        interrupted takes the same way again. What the search did not ask for still competes in the re-test.
        """
        keys = {launch.key for launch in self._launches}
        for kernel in {launch.kernel.name: launch.kernel for launch in self._launches}.values():
            ranking = self._rankings[kernel.name]
            for key, candidate, trial in self._lab.earlier(kernel):
                if (key in keys) == own and not ranking.tried(key, candidate):
                    ranking.observe(key, candidate, trial.typical_ns)

    def _time_defaults(self) -> list[Task]:
        """Times every default; the tasks of those for which the budget was enough."""
        found: dict[str, Task] = {}
        with contextlib.suppress(BudgetSpent):
            self._lab.crew.each(functools.partial(self._time_default, launch, found) for launch in self._launches)
        return _with_known_weights([found[launch.key] for launch in self._launches if launch.key in found])

    def _time_default(self, launch: TrialLaunch, found: dict[str, Task]) -> None:
        trial = timed(launch, default_candidate(launch), self._lab, self._rankings[launch.kernel.name])
        guesses = dict(self._expand(launch, trial.preferred_multiple))
        found[launch.key] = Task(launch, guesses, trial.typical_ns * max(len(launch.uses), 1))
        self._advance()

    def _explore(self, tasks: Sequence[Task]) -> None:
        """Searches the families as long as the budget lasts, a part of it kept back for the re-test."""
        minor_ns = self._level.minor * sum(task.weight for task in tasks)
        families = [self._family(group, minor_ns) for group in _by_kernel(tasks)]
        explored = self._done + sum(self._level.strategy.estimate(family) for family in families)
        self._planned = explored + _RETEST_UNITS * len(tasks)
        self._lab.limit_s = self._lab.spent_s + (1 - _RETEST_SHARE) * (self._lab.budget_s - self._lab.spent_s)
        with contextlib.suppress(BudgetSpent):
            for family in take_turns(families, self._level.strategy, self._lab):
                self._stage = family.name
        self._advance(max(explored - self._done, 0.0))

    def _family(self, tasks: Iterable[Task], minor_ns: float) -> Family:
        members = list(tasks)
        ranking = self._rankings[members[0].launch.kernel.name]
        return Family(members, self._lab, ranking, minor_ns, self._advance)

    def _decide(self, task: Task, found: dict[str, Verdict]) -> None:
        """The task's verdict; one that tells of a gain is confirmed on a second unit where there is one."""
        with self._lab.crew.on_one_unit() as unit:
            verdict = self._retested(task)
        if verdict.won and self._lab.crew.size > 1:
            with self._lab.crew.on_one_unit(other_than=unit) as other:
                second = self._level.retest.decide(task.launch, [verdict.chosen], verdict.default_ns, self._lab)
            verdict = confirmed(verdict, second, other)
        found[task.key] = verdict

    def _retested(self, task: Task) -> Verdict:
        """Re-tests the task's best candidates, where some came near the default."""
        ranking, settings = self._rankings[task.launch.kernel.name], self._level.retest
        self._stage = "re-test"
        default_gap = ranking.gap(task.key, task.default)
        ranked = [each for each in ranking.best(task.key, settings.finalists + 1) if each != task.default]
        finalists = [each for each in ranked if ranking.gap(task.key, each) <= default_gap][: settings.finalists]
        self._advance(_RETEST_UNITS)
        if not finalists:
            return self._without_contest(task, ranking)
        default_ns = ranking.ns(task.key, task.default)
        return settings.decide(task.launch, finalists, default_ns, self._lab)

    def _without_contest(self, task: Task, ranking: Ranking) -> Verdict:
        default_ns = ranking.ns(task.key, task.default)
        if not math.isfinite(default_ns):
            return nothing_runs(task.launch)
        tried = ranking.tried_count(task.key)
        return default_kept(task.launch, default_ns, f"the fastest of {tried} tried" if tried > 1 else _UNEXPLORED)

    def _advance(self, units: float = 1.0) -> None:
        self._done += units
        self._planned = max(self._planned, self._done)
        lab = self._lab
        state = (lab.spent_s, lab.budget_s, lab.trials.total(), self._stage)
        self._observe(Progress(self._done, self._planned, *state))


def _by_kernel(tasks: Sequence[Task]) -> list[list[Task]]:
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.launch.kernel.name, []).append(task)
    return list(groups.values())


def _with_known_weights(tasks: list[Task]) -> list[Task]:
    """A default that does not run has no time: it weighs as much as the mean of the others."""
    known = [task.weight for task in tasks if math.isfinite(task.weight)]
    mean = sum(known) / len(known) if known else 1.0
    return [task if math.isfinite(task.weight) else dataclasses.replace(task, weight=mean) for task in tasks]
