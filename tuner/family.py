"""A family: the launches of one kernel, searched together because a program that is built once is timed on all."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from runtime.kernels.spec import Variant
from runtime.lowering.trials import TrialLaunch
from tuner.build_ahead import TrialProgram
from tuner.device_pool import Chain
from tuner.floors import Floors
from tuner.ranking import Ranking
from tuner.space import default_candidate
from tuner.trial import Candidate, Trial
from tuner.trial_runner import TrialRunner

_LEAST_REPS, _MOST_REPS = 3, 10
_LONG_NS = 5e7  # one repetition of such a launch says what three of a short one do
_TRIAL_NS = 2e6  # repetitions aim at so much time, so that short launches are averaged and long ones stay cheap
_LONG_BUILD_S = 0.25
_NEAR = math.log(1.15)  # a variant so near to a launch's best may be it with another local size
_NOISES = 2.0  # by so much of what a trial may be off, the best of a turn of equals seems faster
_HEAVIEST = 4  # tasks on which a program shows whether the others need to be timed with it
_HOPELESS = math.log(1.3)  # a program so far behind on one launch is not tried on the others
_BEHIND_ELSEWHERE = math.log(1.4)  # nor is a variant built for a launch that is so far behind on all others


Callback = Callable[[], None]


@dataclasses.dataclass
class TuningTask:
    """A launch to tune: its candidates with guessed costs, and its weight, in ns (`coverage.model_weights`)."""

    launch: TrialLaunch
    guesses: dict[Candidate, float]
    weight: float

    @property
    def key(self) -> str:
        """The tuning key."""
        return self.launch.key

    @property
    def default(self) -> Candidate:
        """The candidate that an untuned plan launches."""
        return default_candidate(self.launch)


Following = Sequence[tuple[Variant, Sequence[TuningTask]]]
"""Variants that will be tried, each with its tasks, the next first."""


class Family:
    """The tuning tasks of one kernel, the heaviest first, and the ranking that their trials fill.

    Args:
        minor_ns: a task of less weight is timed only with programs that are already built.
        on_program: called after each program that was tried.
        floors: the least times of launches; without them nothing is known of what is left to save.
        least_gain: the share of its time for which a launch leaves its default.
    """

    def __init__(
        self,
        tasks: Iterable[TuningTask],
        runner: TrialRunner,
        ranking: Ranking,
        minor_ns: float,
        on_program: Callback,
        floors: Floors | None = None,
        least_gain: float = 0.0,
    ) -> None:
        self.tasks = sorted(tasks, key=lambda task: -task.weight)
        self.ranking = ranking
        self.weight = sum(task.weight for task in self.tasks)
        self._runner = runner
        self._minor_ns = minor_ns
        self._on_program = on_program
        self._floors = floors or Floors()
        self._least_gain = least_gain
        self._confirmed: set[tuple[str, Candidate]] = set()

    @property
    def time_ns(self) -> float:
        """Time that the tasks take in the models with the best candidates known."""
        return sum(task.weight * self.ranking.best_over_default(task.key, task.default) for task in self.tasks)

    @property
    def saved_ns(self) -> float:
        """Time that the best candidates known save for certain: what the best of several may show by noise is none.

        Nor is what makes no launch leave its default.
        """
        return sum(task.weight * max(self._gain(task), 0.0) for task in self.tasks)

    def _gain(self, task: TuningTask) -> float:
        """What a task's best candidate saves of its time beyond the least that counts."""
        least = max(_NOISES * self._runner.noise, self._least_gain)
        return 1.0 - self.ranking.best_over_default(task.key, task.default) - least

    def confirm(self) -> None:
        """Times again what seems to save: of many candidates the luckiest seems fastest. The slower time counts."""
        self.in_parallel(functools.partial(self._confirm, task) for task in self.tasks)

    def _confirm(self, task: TuningTask) -> None:
        while self._gain(task) > 0.0:
            (best,) = self.ranking.best(task.key, 1)
            if (task.key, best) in self._confirmed:
                return
            self._confirmed.add((task.key, best))
            timed_trial(task.launch, best, self._runner, self.ranking, again=True)

    @property
    def runs_by_default(self) -> bool:
        """Whether the default of each task gives a right result."""
        return all(math.isfinite(self.ranking.ns(task.key, task.default)) for task in self.tasks)

    @property
    def least_ns(self) -> float:
        """Time that they take at the least, by the device's peaks as far as no launch has disproved these; else 0."""
        for task in self.tasks:
            self._floors.note(task.launch, self.ranking.best_ns(task.key))
        return sum(self._least_ns(task) for task in self.tasks)

    def _least_ns(self, task: TuningTask) -> float:
        best_ns = self.ranking.best_ns(task.key)
        share = min(self._floors.least_ns(task.launch) / best_ns, 1.0)
        return share * task.weight * self.ranking.best_over_default(task.key, task.default)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.tasks[0].launch.kernel.name

    @property
    def units(self) -> int:
        """Units that time at the same time."""
        return self._runner.pool.size

    @property
    def build_s(self) -> float:
        """What a trial takes that builds a program; 0 as long as there was none."""
        return self._runner.build_s

    def time_on(
        self, candidate: Candidate, tasks: Sequence[TuningTask], give_up: bool = True, following: Following = ()
    ) -> None:
        """Times a program on the tasks that have it and were not timed with it, the heaviest first.

        With `give_up`, ends at the first task where it is hopeless, or when it is near the best on no heavy one.
        `following` is what will be tried then, as far as is known.
        """
        gaps: list[float] = []
        for place, task in enumerate(tasks):
            if self._is_open(task, candidate) and self._is_worth_it(task, candidate):
                upcoming = self._upcoming(candidate, tasks[place + 1 :] if gaps else (), following)
                timed_trial(task.launch, candidate, self._runner, self.ranking, upcoming)
                gaps.append(self.ranking.gap(task.key, candidate))
                if give_up and (gaps[-1] > _HOPELESS or (len(gaps) >= _HEAVIEST and min(gaps) > _NEAR)):
                    break
        self._on_program()

    def in_parallel(self, chains: Iterable[Chain]) -> None:
        """Runs chains of trials, each on one unit of the pool, since a trial may reuse programs of the trial before.

        Where others search too, in an order of chance, so that they are not all at the same trial.
        """
        in_order = list(chains)
        if self._runner.has_company:
            random.shuffle(in_order)
        self._runner.pool.run_chains(functools.partial(self._on_one_unit, chain) for chain in in_order)

    def _on_one_unit(self, chain: Chain) -> None:
        with self._runner.pool.on_one_unit():
            chain()

    def _is_open(self, task: TuningTask, candidate: Candidate) -> bool:
        is_untried = candidate in task.guesses and not self.ranking.tried(task.key, candidate)
        return is_untried and self._runner.is_legal(task.launch, candidate)

    def _is_worth_it(self, task: TuningTask, candidate: Candidate) -> bool:
        """A built program costs little; a new one must be for much time, and of no variant that is slow elsewhere."""
        return self._runner.is_built(task.launch, candidate) or self._is_worth_a_build(task, candidate.variant)

    def _is_worth_a_build(self, task: TuningTask, variant: Variant) -> bool:
        if task.weight < self._minor_ns:
            return False
        if self._runner.is_compiled(task.launch, variant):
            return True
        return not self.ranking.is_behind_elsewhere(task.key, variant, _BEHIND_ELSEWHERE)

    def _upcoming(
        self, candidate: Candidate, later: Sequence[TuningTask], following: Following
    ) -> Iterator[TrialProgram]:
        """Programs that will be needed; first the one that certainly is, whatever comes of this candidate.

        Where several units share the search, what follows may be another one's.
        """
        coming = self._first_programs(following) if self.units == 1 else iter(())
        yield from itertools.islice(coming, 1)
        for task in later:
            if self._is_open(task, candidate) and self._is_worth_it(task, candidate):
                yield TrialProgram(task.launch, candidate.variant)
        yield from coming

    def _first_programs(self, following: Following) -> Iterator[TrialProgram]:
        """The program with which the trials of each variant begin."""
        for variant, tasks in following:
            if not self.is_suspect(variant) and not self.is_far_behind(variant):
                launches = (task.launch for task in tasks if self._is_worth_a_build(task, variant))
                yield from (TrialProgram(launch, variant) for launch in itertools.islice(launches, 1))

    def is_suspect(self, variant: Variant) -> bool:
        """Returns whether a variant shares an option with variants that took the runtime down."""
        return self._runner.is_suspect(self.name, variant)

    @property
    def sizes_are_free(self) -> bool:
        """Returns whether further local sizes cost no build; true also while no trial has shown it."""
        return not self._runner.builds_each_size or not self._runner.knows_builds

    @property
    def builds_are_cheap(self) -> bool:
        """Whether trials have shown that a build takes little, and serves all local sizes."""
        return not self._runner.builds_each_size and self._runner.build_s <= _LONG_BUILD_S

    def is_promising(self, variant: Variant, tasks: Sequence[TuningTask]) -> bool:
        """Returns whether a variant is nearly as fast as the best one on some launch."""
        penalties = (self.ranking.variant_penalty(task.key, variant) for task in tasks)
        return any(penalty is not None and penalty < _NEAR for penalty in penalties)

    def is_far_behind(self, variant: Variant) -> bool:
        """Returns whether an untried variant is predicted to be too slow to be worth its build.

        Options predict worse than devices that are alike do: they only spare builds that take long.
        """
        return self.ranking.is_far_behind(variant, by_options=self._runner.build_s > _LONG_BUILD_S)

    def expected_gap(self, variant: Variant) -> float:
        """How far a variant is expected to be behind the best, in logarithms."""
        return self.ranking.expected_gap(variant)

    def variants(self, task: TuningTask) -> list[Variant]:
        """The task's variants, the most promising first; unknown ones go by their place in the kernel table."""
        return self.ranking.in_order(task.key, dict.fromkeys(candidate.variant for candidate in task.guesses))

    def suggest(self, variant: Variant, tasks: Sequence[TuningTask]) -> list[Candidate]:
        """Untried programs of a variant, the largest expected gain over all tasks (weighted by their time) first."""
        gains: dict[Candidate, float] = {}
        for task in tasks:
            of_variant = (candidate for candidate in task.guesses if candidate.variant == variant)
            untried = [candidate for candidate in of_variant if self._is_open(task, candidate)]
            sizes = [candidate.local_size for candidate in untried]
            guesses = [task.guesses[candidate] for candidate in untried]
            improvements = self.ranking.expected_improvement(task.key, sizes, guesses)
            for candidate, improvement in zip(untried, improvements, strict=True):
                gains[candidate] = gains.get(candidate, 0.0) + task.weight * improvement
        return sorted(gains, key=lambda candidate: -gains[candidate])


def timed_trial(
    launch: TrialLaunch,
    candidate: Candidate,
    runner: TrialRunner,
    ranking: Ranking,
    upcoming: Iterable[TrialProgram] = (),
    again: bool = False,
) -> Trial:
    """Runs a trial of a candidate and adds its time to the ranking; `upcoming` as `TrialRunner.trial` has it.

    `again`: it has a time, which a shorter one does not replace.
    """
    best_ns = ranking.best_ns(launch.key)
    least = 1 if _LONG_NS <= best_ns < math.inf else _LEAST_REPS
    reps = runner.repetitions(launch, best_ns, _TRIAL_NS, least, _MOST_REPS)
    trial = runner.trial(launch, candidate, reps, upcoming=upcoming, again=again)
    before_ns = ranking.ns(launch.key, candidate) if again else 0.0
    ranking.observe(launch.key, candidate, max(trial.typical_ns, before_ns))
    return trial
