"""The launches of one kernel, searched together: a program that is built once is timed on all of them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence

from runtime.kernels.spec import Variant
from runtime.lowering.trials import TrialLaunch
from tuner.device_pool import Chain
from tuner.ranking import Ranking
from tuner.space import default_candidate
from tuner.trial import Candidate, Trial
from tuner.trial_runner import Lab

_LEAST_REPS, _MOST_REPS = 3, 10
_TRIAL_NS = 2e6  # repetitions aim at so much time, so that short launches are averaged and long ones stay cheap
_HOPELESS = math.log(2.5)  # a program so far behind on one launch is not tried on the others


Callback = Callable[[], None]


@dataclasses.dataclass
class Task:
    """A launch to tune: its candidates with guessed costs, and its time in all models by default, in ns."""

    launch: TrialLaunch
    guesses: dict[Candidate, float]
    weight: float

    @property
    def key(self) -> str:
        """The tuning key."""
        return self.launch.key

    @property
    def default(self) -> Candidate:
        """What an untuned plan launches."""
        return default_candidate(self.launch)


class Family:
    """Tasks of one kernel, the heaviest first, with what was learnt of them.

    Args:
        minor_ns: a task of less weight is timed only with programs that are built already.
        on_program: called after each program that was tried.
    """

    def __init__(
        self, tasks: Iterable[Task], lab: Lab, ranking: Ranking, minor_ns: float, on_program: Callback
    ) -> None:
        self.tasks = sorted(tasks, key=lambda task: -task.weight)
        self.ranking = ranking
        self.weight = sum(task.weight for task in self.tasks)
        self._lab = lab
        self._minor_ns = minor_ns
        self._on_program = on_program

    @property
    def time_ns(self) -> float:
        """Time that the tasks take in the models with the best candidates known."""
        return sum(task.weight * self.ranking.share_left(task.key, task.default) for task in self.tasks)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.tasks[0].launch.kernel.name

    def try_on(self, candidate: Candidate, tasks: Sequence[Task], give_up: bool = True) -> None:
        """Times a program on the tasks that have it and were not timed with it, the heaviest first.

        With `give_up`, ends at the first task where it is hopeless.
        """
        for task in tasks:
            if self._is_open(task, candidate) and self._is_worth_it(task, candidate):
                timed(task.launch, candidate, self._lab, self.ranking)
                if give_up and self.ranking.gap(task.key, candidate) > _HOPELESS:
                    break
        self._on_program()

    def in_parallel(self, chains: Iterable[Chain]) -> None:
        """Runs chains of trials, each on one of the lab's units: it builds programs that the next trial may use."""
        self._lab.crew.each(functools.partial(self._on_one_unit, chain) for chain in chains)

    def _on_one_unit(self, chain: Chain) -> None:
        with self._lab.crew.on_one_unit():
            chain()

    def _is_open(self, task: Task, candidate: Candidate) -> bool:
        known = candidate in task.guesses and not self.ranking.tried(task.key, candidate)
        return known and self._lab.legal(task.launch, candidate)

    def _is_worth_it(self, task: Task, candidate: Candidate) -> bool:
        return task.weight >= self._minor_ns or self._lab.is_built(task.launch, candidate)

    def is_suspect(self, variant: Variant) -> bool:
        """Whether a variant is likely to take the runtime down."""
        return self._lab.is_suspect(self.name, variant)

    def variants(self, task: Task) -> list[Variant]:
        """The task's variants, the most promising first; unknown ones go by their place in the kernel table."""
        variants = dict.fromkeys(candidate.variant for candidate in task.guesses)
        return sorted(variants, key=lambda each: self.ranking.variant_penalty(task.key, each) or 0.0)

    def suggest(self, variant: Variant, tasks: Sequence[Task]) -> list[Candidate]:
        """Untried programs of a variant, those first that promise most over all tasks, weighted by their time."""
        values: dict[Candidate, float] = {}
        for task in tasks:
            fresh = [each for each in task.guesses if each.variant == variant and self._is_open(task, each)]
            sizes, guesses = [each.local_size for each in fresh], [task.guesses[each] for each in fresh]
            for candidate, promise in zip(fresh, self.ranking.promise(task.key, sizes, guesses), strict=True):
                values[candidate] = values.get(candidate, 0.0) + task.weight * promise
        return sorted(values, key=lambda each: -values[each])


def timed(launch: TrialLaunch, candidate: Candidate, lab: Lab, ranking: Ranking) -> Trial:
    """A trial of a candidate, remembered in the ranking."""
    best_ns = ranking.best_ns(launch.key)
    reps = min(max(int(_TRIAL_NS / best_ns), _LEAST_REPS), _MOST_REPS)
    trial = lab.trial(launch, candidate, reps)
    ranking.observe(launch.key, candidate, trial.typical_ns)
    return trial
