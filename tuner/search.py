"""The search in three stages: time every default, search the families by their share of time, re-test the best."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from runtime.lowering.trials import TrialLaunch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks
from tuner.build_ahead import BuildAheadUse
from tuner.coverage import RETEST_SHARE, covering_s, model_count, model_weights, of_weight
from tuner.family import Family, TuningTask, timed_trial
from tuner.family_scheduler import PROGRAM_S, Strategy, explore_families
from tuner.floors import Floors
from tuner.halving import Exhaustive, Halving
from tuner.progress import Observer, Progress, ignore_progress
from tuner.ranking import Ranking
from tuner.relatives import KernelRelatives, Relatives
from tuner.retest import Retest, RunningRetest
from tuner.space import default_candidate
from tuner.speed_states import SpeedStates
from tuner.trial import Candidate, TrialStatus
from tuner.trial_runner import BudgetSpent, TrialRunner
from tuner.verdict import LaunchVerdict, confirmed, default_kept, nothing_runs, without_false_discoveries

Expand = Callable[[TrialLaunch, int], Mapping[Candidate, float]]
"""Candidates of a launch with guessed costs, given the preferred multiple of the work-group size (0: unknown)."""

_LEAST_RETEST, _MOST_RETEST = RETEST_SHARE, 0.5  # of a budget, kept back for the re-test by what there is to confirm
_NS_PER_S = 1e9
_SIZES_A_BUILD = 3  # are tried where the driver builds a program once for all of them
_RETEST_TRIALS = 12  # of a launch that has something to confirm
_UNEXPLORED = "too small a part of the time, or of the budget, to try others"
_CONTENDING = math.log(1.05)  # behind a launch's best: a candidate that may still be the fastest
_PLAIN_GAIN = 0.03  # of a launch's time: where two tunings find less, one mostly chooses what the other does not
_CHOSEN_MINOR = 10.0  # times the share below which a launch gets no build of its own, where defaults were chosen
_RETEST_UNITS = 2.0  # work of a launch's re-test, in programs tried


@dataclasses.dataclass(frozen=True)
class SearchLevel:
    """How thorough a search is.

    Attributes:
        minor: below this share of a model's time a launch gets no build of its own.
        budget_s: device time for each model, unless the user says otherwise.
        stops_at_peak: whether a kernel is left whose launches are as fast as the device's peaks allow.
        patience: after so many turns a kernel is left that has saved nothing.
        returns: whether such a kernel has the time that no other needs.
    """

    strategy: Strategy
    retest: Retest
    minor: float
    budget_s: float
    stops_at_peak: bool = True
    patience: float = math.inf
    returns: bool = True

    @property
    def of_chosen_defaults(self) -> SearchLevel:
        """The level on drivers on which the kernels' defaults were chosen: less is left to find there.

        A launch leaves its default for a plain gain only: what is less, alone, tells little of the launch in its model.
        What a light one saves makes no gain that a proof could see.
        """
        retest = dataclasses.replace(self.retest, least_gain=_PLAIN_GAIN, finalists=self.retest.finalists // 2)
        minor, patience = _CHOSEN_MINOR * self.minor, self.patience / 2
        return dataclasses.replace(self, retest=retest, minor=minor, patience=patience, returns=False)


_QUICK = Halving(keep=0.34, first=1, last=8)
_NORMAL = Halving(keep=0.5, first=2, last=16)

LEVELS: Mapping[str, SearchLevel] = {
    "quick": SearchLevel(_QUICK, Retest(finalists=2, rounds=7), minor=0.002, budget_s=18.0, patience=2),
    "normal": SearchLevel(_NORMAL, Retest(finalists=4, rounds=8), minor=0.0002, budget_s=180.0),
    "exhaustive": SearchLevel(
        Exhaustive(_NORMAL), Retest(finalists=8, rounds=10), minor=0.0, budget_s=math.inf, stops_at_peak=False
    ),
}


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The verdicts of a search, one for each launch in the given order, and its cost.

    `trials` and `device_s` are by tuning key and count new trials only; `tried` counts the candidates beside the
    default whose times are known, by tuning key, and `statuses` all trials, both with those of the journal. `needed_s`
    of device time would have covered LEAST_TRIALS of each launch of weight. `states`
    are the two speeds that the unit had meanwhile, None where it had one, `built_ahead` what came of building programs
    while others were measured, None where none was.
    """

    verdicts: tuple[LaunchVerdict, ...]
    trials: Mapping[str, int]
    device_s: Mapping[str, float]
    statuses: Mapping[TrialStatus, int]
    budget_spent: bool
    tried: Mapping[str, int]
    needed_s: float
    states: SpeedStates | None = None
    built_ahead: BuildAheadUse | None = None


def search(
    launches: Sequence[TrialLaunch],
    expand: Expand,
    runner: TrialRunner,
    level: SearchLevel,
    observe: Observer = ignore_progress,
    relatives: Relatives | None = None,
    peaks: MeasuredPeaks = NOT_MEASURED,
) -> SearchResult:
    """Finds the best candidate of every launch within the trial runner's budget; other devices may say where to begin.

    A launch weighs by its share of each model's time, so that models count alike; one without a use weighs as if used
    once. `peaks` tell what is left to save. Errors of `measure` pass through; all trials until then are in the journal.
    """
    run = _Search(launches, expand, runner, level, observe, relatives or Relatives(""), peaks)
    verdicts = run.verdicts()
    return SearchResult(
        verdicts,
        dict(runner.trials),
        dict(runner.device_s),
        dict(runner.statuses),
        runner.spent_s >= runner.budget_s,
        run.tried(),
        run.needed_s,
        runner.states,
        runner.built_ahead,
    )


class _Search:
    def __init__(
        self,
        launches: Sequence[TrialLaunch],
        expand: Expand,
        runner: TrialRunner,
        level: SearchLevel,
        observe: Observer,
        relatives: Relatives,
        peaks: MeasuredPeaks,
    ) -> None:
        self._launches, self._models = launches, model_count(launches)
        self._floors = Floors(peaks if level.stops_at_peak else NOT_MEASURED)
        self._expand, self._runner, self._level, self._observe = expand, runner, level, observe
        kernels = dict.fromkeys(launch.kernel.name for launch in launches)
        self._rankings = {name: Ranking(KernelRelatives(relatives, name)) for name in kernels}
        self._weight = 0.0
        self._defaults_s = self.needed_s = 0.0
        self._done, self._planned, self._stage = 0.0, float(len(launches)), "defaults"

    def verdicts(self) -> tuple[LaunchVerdict, ...]:
        """Runs all three stages; the launches that promise to save most are re-tested first."""
        self._learn_from_journal(own=False)
        tasks = self._time_defaults()
        self._defaults_s = self._runner.spent_s
        self._cover(tasks)
        self._explore(tasks)
        self._learn_from_journal(own=True)
        self._weigh(tasks)
        self._weight = sum(task.weight for task in tasks) / self._models
        self._runner.limit_s = self._runner.budget_s
        verdicts = self._retested(sorted(tasks, key=self._promised_ns, reverse=True))
        untimed = "the budget was spent before it was timed"
        return without_false_discoveries(
            [
                self._in_usual_time(verdicts[launch.key])
                if launch.key in verdicts
                else default_kept(launch, math.nan, untimed)
                for launch in self._launches
            ]
        )

    def _in_usual_time(self, verdict: LaunchVerdict) -> LaunchVerdict:
        """The verdict with times of a unit that nothing disturbs: they were relative to the default's first time."""
        scale = self._runner.usual_ns(verdict.launch) / self._runner.default_ns(verdict.launch)
        if not math.isfinite(scale):
            return verdict
        return dataclasses.replace(verdict, default_ns=scale * verdict.default_ns, tuned_ns=scale * verdict.tuned_ns)

    def _weigh(self, tasks: Sequence[TuningTask]) -> None:
        """Weighs each task by what is known of its default by now."""
        times = [(self._runner.usual_ns(task.launch), task.launch.uses) for task in tasks]
        for task, weight in zip(tasks, model_weights(times), strict=True):
            if math.isfinite(weight):
                task.weight = weight

    def tried(self) -> dict[str, int]:
        """Candidates beside the default whose times are known, by tuning key."""
        counts = {each.key: self._rankings[each.kernel.name].tried_count(each.key) for each in self._launches}
        return {key: max(count - 1, 0) for key, count in counts.items()}

    def _cover(self, tasks: Sequence[TuningTask]) -> None:
        """Notes what LEAST_TRIALS of each launch of weight take here; a budget that may grow becomes so long."""
        times = [(self._runner.usual_ns(task.launch) / _NS_PER_S, task.weight) for task in tasks]
        timed = [(seconds, weight) for seconds, weight in times if math.isfinite(seconds)]
        builds = 1 if self._runner.builds_each_size else _SIZES_A_BUILD
        needed_s = covering_s(of_weight(timed, self._models), (self._runner.build_s or PROGRAM_S) / builds)
        self.needed_s = max(self.needed_s, self._defaults_s + needed_s)
        self._runner.cover(self.needed_s)

    def _learn_from_journal(self, own: bool) -> None:
        """Adds journaled trials of earlier runs to the rankings: other launches' first, after exploring the `own` ones.

        The launches' own trials stay out of the rankings while the search explores: each enters when the search asks
        for it, so that a resumed run takes the same path as the interrupted one. Afterwards the remaining ones are
        added, so that they compete in the re-test.
        """
        keys = {launch.key for launch in self._launches}
        for kernel in {launch.kernel.name: launch.kernel for launch in self._launches}.values():
            ranking = self._rankings[kernel.name]
            for key, candidate, trial in self._runner.journaled_trials(kernel):
                if (key in keys) == own and not ranking.tried(key, candidate):
                    ranking.observe(key, candidate, trial.typical_ns)

    def _time_defaults(self) -> list[TuningTask]:
        """Times every default; returns the tasks of those that were timed before the budget was spent."""
        tasks: dict[str, TuningTask] = {}
        with contextlib.suppress(BudgetSpent):
            self._runner.pool.run_chains(
                functools.partial(self._time_default, launch, tasks) for launch in self._launches
            )
        return _with_known_weights([tasks[launch.key] for launch in self._launches if launch.key in tasks])

    def _time_default(self, launch: TrialLaunch, tasks: dict[str, TuningTask]) -> None:
        trial = timed_trial(launch, default_candidate(launch), self._runner, self._rankings[launch.kernel.name])
        guesses = dict(self._expand(launch, trial.preferred_multiple))
        tasks[launch.key] = TuningTask(launch, guesses, trial.typical_ns)
        self._advance()

    def _explore(self, tasks: Sequence[TuningTask]) -> None:
        """Searches the families until the budget is spent, less the part that is kept for the re-test."""
        level = self._level
        minor_ns = level.minor * sum(task.weight for task in tasks) / self._models
        on_program = functools.partial(self._on_program, tasks, self._runner.spent_s)
        families = [self._family(group, minor_ns, on_program) for group in _by_kernel(tasks)]
        explored = self._done + sum(level.strategy.estimate(family) for family in families)
        self._planned = explored + _RETEST_UNITS * len(tasks)
        with contextlib.suppress(BudgetSpent):
            for family in explore_families(families, level.strategy, self._runner, level.patience, level.returns):
                self._stage = family.name
        self._advance(max(explored - self._done, 0.0))

    def _on_program(self, tasks: Sequence[TuningTask], begun_s: float) -> None:
        self._weigh(tasks)
        self._cover(tasks)
        budget_s = self._runner.budget_s
        self._runner.limit_s = budget_s - self._kept_back_s(tasks, budget_s - begun_s)
        self._advance()

    def _kept_back_s(self, tasks: Iterable[TuningTask], left_s: float) -> float:
        """Seconds kept back, of those left when exploring began, to confirm launches that seem faster."""
        if not math.isfinite(left_s):
            return 0.0
        seconds = self._runner.timing_s * _RETEST_TRIALS * sum(bool(self._finalists(task)) for task in tasks)
        return min(max(seconds, _LEAST_RETEST * left_s), _MOST_RETEST * left_s)

    def _finalists(self, task: TuningTask) -> list[Candidate]:
        """What may be the fastest, and promises at least half of the gain that counts, as one time tells no more."""
        ranking, settings = self._rankings[task.launch.kernel.name], self._retest_of(task)
        promise = -math.log1p(-settings.least_gain) / 2
        limit = min(ranking.gap(task.key, task.default) - promise, _CONTENDING)
        ranked = (each for each in ranking.best(task.key, settings.finalists + 1) if each != task.default)
        return [each for each in ranked if ranking.gap(task.key, each) <= limit][: settings.finalists]

    def _family(self, tasks: Sequence[TuningTask], minor_ns: float, on_program: Callable[[], None]) -> Family:
        ranking = self._rankings[tasks[0].launch.kernel.name]
        least_gain = self._level.retest.least_gain
        return Family(tasks, self._runner, ranking, minor_ns, on_program, self._floors, least_gain)

    def _retested(self, tasks: Sequence[TuningTask]) -> dict[str, LaunchVerdict]:
        """Verdicts by tuning key: all tasks have their first look before those in doubt have a further one."""
        verdicts: dict[str, LaunchVerdict] = {}
        self._stage = "re-test"
        running = [(task, self._retest(task, verdicts)) for task in tasks]
        open_ones = [(task, retest) for task, retest in running if retest]
        while open_ones:
            self._runner.pool.run_chains(functools.partial(self._look, *each, verdicts) for each in open_ones)
            open_ones = [(task, retest) for task, retest in open_ones if retest.is_undecided]
        return verdicts

    def _retest(self, task: TuningTask, verdicts: dict[str, LaunchVerdict]) -> RunningRetest | None:
        """The re-test of a task's best candidates; None, with a verdict, if none is as fast as the default."""
        ranking, settings = self._rankings[task.launch.kernel.name], self._retest_of(task)
        finalists = self._finalists(task)
        if finalists:
            return settings.begin(task.launch, finalists, ranking.ns(task.key, task.default), self._runner)
        verdicts[task.key] = self._without_retest(task, ranking)
        self._advance(_RETEST_UNITS)
        return None

    def _look(self, task: TuningTask, retest: RunningRetest, verdicts: dict[str, LaunchVerdict]) -> None:
        """The next look at a task; a second unit, where there is one, must confirm another candidate."""
        with self._runner.pool.on_one_unit() as unit:
            retest.look()
        verdict = retest.verdict
        if verdict.won and self._runner.pool.size > 1:
            with self._runner.pool.on_one_unit(other_than=unit) as other:
                second = self._retest_of(task).decide(task.launch, [verdict.chosen], verdict.default_ns, self._runner)
            verdict = confirmed(verdict, second, other)
        verdicts[task.key] = verdict
        if not retest.is_undecided:
            self._advance(_RETEST_UNITS)

    def _promised_ns(self, task: TuningTask) -> float:
        """Time of the models that the best candidate of a task saves, by what was seen; all where no default runs."""
        ranking = self._rankings[task.launch.kernel.name]
        if not math.isfinite(ranking.ns(task.key, task.default)):
            return task.weight
        return task.weight * (1.0 - ranking.best_over_default(task.key, task.default))

    def _retest_of(self, task: TuningTask) -> Retest:
        return self._level.retest.for_share(task.weight / max(self._weight, task.weight))

    def _without_retest(self, task: TuningTask, ranking: Ranking) -> LaunchVerdict:
        default_ns = ranking.ns(task.key, task.default)
        if not math.isfinite(default_ns):
            return nothing_runs(task.launch)
        tried = ranking.tried_count(task.key)
        return default_kept(task.launch, default_ns, f"the fastest of {tried} tried" if tried > 1 else _UNEXPLORED)

    def _advance(self, units: float = 1.0) -> None:
        self._done += units
        self._planned = max(self._planned, self._done)
        runner = self._runner
        state = (runner.spent_s, runner.budget_s, runner.trials.total(), self._stage)
        self._observe(Progress(self._done, self._planned, *state))


def _by_kernel(tasks: Sequence[TuningTask]) -> list[list[TuningTask]]:
    groups: dict[str, list[TuningTask]] = {}
    for task in tasks:
        groups.setdefault(task.launch.kernel.name, []).append(task)
    return list(groups.values())


def _with_known_weights(tasks: list[TuningTask]) -> list[TuningTask]:
    """Weighs tasks by their times; one whose default does not run, and so has no time, gets the mean of the others."""
    weights = model_weights([(task.weight, task.launch.uses) for task in tasks])
    known = [weight for weight in weights if math.isfinite(weight)]
    mean = sum(known) / len(known) if known else 1.0
    known_or_mean = (weight if math.isfinite(weight) else mean for weight in weights)
    return [dataclasses.replace(task, weight=weight) for task, weight in zip(tasks, known_or_mean, strict=True)]
