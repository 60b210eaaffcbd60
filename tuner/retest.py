"""The re-test: a launch's best candidates and its default are measured interleaved, and the winner is chosen.

Interleaved rounds spread a disturbance over all candidates.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch
from tuner.space import default_candidate
from tuner.statistics import Ratio, ratio_of_medians
from tuner.trial import Candidate, TrialStatus
from tuner.trial_runner import BudgetSpent, TrialRunner
from tuner.verdict import LaunchVerdict, default_kept, nothing_runs

_HALVING_ROUNDS = (2, 4)  # after so many rounds the slower half of the finalists leaves
_LEAST_REPS, _MOST_REPS = 3, 20
_ROUND_NS = 2e6  # repetitions of a round aim at so much time
_EXTENSIONS = 2
_WORTH_MORE_ROUNDS = 1.0  # percent


@dataclasses.dataclass(frozen=True)
class Retest:
    """Settings: how many candidates take part, and how many rounds measure each.

    While the best candidate seems faster but the confidence interval does not prove it, up to twice as many rounds
    follow.
    """

    finalists: int
    rounds: int

    def decide(
        self, launch: TrialLaunch, finalists: Sequence[Candidate], default_ns: float, runner: TrialRunner
    ) -> LaunchVerdict:
        """Measures default and finalists interleaved; the best wins if it is faster than the default beyond the noise.

        `default_ns` is the default's time in the search, infinite where the default gives no right result: then any
        finalist that gives one wins.
        """
        default = default_candidate(launch)
        samples = _InterleavedSamples(launch, runner, min(max(int(_ROUND_NS / default_ns), _LEAST_REPS), _MOST_REPS))
        try:
            alive = self._run_rounds(samples, default, list(finalists))
            for _ in range(_EXTENSIONS):
                if not samples.is_open(default, alive):
                    break
                samples.measure_rounds([default, *alive], self.rounds)
        except BudgetSpent:
            return default_kept(launch, default_ns, "the budget was spent before the re-test ended")
        best = min(alive, key=samples.median_ns, default=None)
        if not samples.runs(default):
            return _without_default(launch, best, samples)
        if best is None:
            return default_kept(launch, samples.median_ns(default), "no other candidate came through the re-test")
        return _verdict_on(launch, default, best, samples)

    def _run_rounds(self, samples: _InterleavedSamples, default: Candidate, alive: list[Candidate]) -> list[Candidate]:
        """Runs all rounds and drops the slower half of the candidates on the way; returns those that remain."""
        rounds_done = 0
        for end in (*_HALVING_ROUNDS, self.rounds):
            samples.measure_rounds([default, *alive], end - rounds_done)
            alive = [candidate for candidate in alive if samples.runs(candidate)]
            if end < self.rounds:
                alive = sorted(alive, key=samples.median_ns)[: math.ceil(len(alive) / 2)]
            rounds_done = end
        return alive


class _InterleavedSamples:
    """The samples of one launch's candidates, round by round."""

    def __init__(self, launch: TrialLaunch, runner: TrialRunner, reps: int) -> None:
        self._launch, self._runner, self._reps = launch, runner, reps
        self.rounds: dict[Candidate, list[tuple[float, ...]]] = {}
        self._failed: set[Candidate] = set()
        self._unit = ""

    def measure_rounds(self, candidates: Sequence[Candidate], count: int) -> None:
        """Times each candidate once a round, every other round in reverse order; one that fails is not timed again."""
        for number in range(count):
            for candidate in reversed(candidates) if number % 2 else candidates:
                if candidate not in self._failed:
                    self._time(candidate)

    def _time(self, candidate: Candidate) -> None:
        trial = self._runner.trial(self._launch, candidate, self._reps, fresh=True)
        if trial.unit != self._unit:  # the unit before was lost, and samples of two units cannot be compared
            self.rounds.clear()
            self._unit = trial.unit
        if trial.status == TrialStatus.OK:
            self.rounds.setdefault(candidate, []).append(trial.ns)
        else:
            self._failed.add(candidate)

    def is_open(self, default: Candidate, alive: Sequence[Candidate]) -> bool:
        """Whether the best candidate seems faster than the default, but not beyond the noise."""
        best = min(alive, key=self.median_ns, default=None)
        ratio = self.ratio(best, default) if best and self.runs(best) and self.runs(default) else None
        return ratio is not None and not ratio.is_faster and ratio.gain_percent > _WORTH_MORE_ROUNDS

    def ratio(self, candidate: Candidate, default: Candidate) -> Ratio | None:
        return ratio_of_medians(self.rounds[candidate], self.rounds[default])

    def runs(self, candidate: Candidate) -> bool:
        return candidate in self.rounds and candidate not in self._failed

    def median_ns(self, candidate: Candidate) -> float:
        times_ns = [ns for round_ns in self.rounds.get(candidate, ()) for ns in round_ns]
        return statistics.median(times_ns) if times_ns else math.nan


def _without_default(launch: TrialLaunch, best: Candidate | None, samples: _InterleavedSamples) -> LaunchVerdict:
    if best is None:
        return nothing_runs(launch)
    return LaunchVerdict(launch, best, math.nan, samples.median_ns(best), "the default gives no right result")


def _verdict_on(
    launch: TrialLaunch, default: Candidate, best: Candidate, samples: _InterleavedSamples
) -> LaunchVerdict:
    default_ns = samples.median_ns(default)
    ratio = samples.ratio(best, default)
    if ratio is None:
        return default_kept(launch, default_ns, "too few rounds for a verdict")
    low, high = ratio.gain_interval
    gain = f"{best} gains {ratio.gain_percent:.1f} % ({low:.1f} to {high:.1f})"
    if ratio.low > 1.0:
        return default_kept(launch, default_ns, f"{best} is {-ratio.gain_percent:.1f} % slower", ratio)
    if not ratio.is_faster:
        return default_kept(launch, default_ns, f"{gain}, which is within the noise", ratio)
    return LaunchVerdict(launch, best, default_ns, samples.median_ns(best), gain, ratio)
