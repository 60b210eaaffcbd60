"""The last word: a launch's best candidates against its default, in turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch
from tuner.space import default_candidate
from tuner.statistics import Ratio, ratio_of_medians
from tuner.trial import Candidate, Status
from tuner.trial_runner import BudgetSpent, Lab
from tuner.verdict import Verdict, default_kept, nothing_runs

_HALVING_ROUNDS = (2, 4)  # after so many rounds the slower half of the finalists leaves
_LEAST_REPS, _MOST_REPS = 3, 20
_ROUND_NS = 2e6  # repetitions of a round aim at so much time
_EXTENSIONS = 2
_WORTH_MORE_ROUNDS = 1.0  # percent


@dataclasses.dataclass(frozen=True)
class Retest:
    """Settings: how many candidates come in, and how often each is measured.

    As long as the best seems to gain but the noise does not let it be said, there are up to twice as many rounds more.
    """

    finalists: int
    rounds: int

    def decide(self, launch: TrialLaunch, finalists: Sequence[Candidate], default_ns: float, lab: Lab) -> Verdict:
        """Measures default and finalists in turns; the best of them wins if it beats the default beyond the noise.

        `default_ns` is what the search found; infinite for a default that gives no right result. That one loses to any
        that does.
        """
        default = default_candidate(launch)
        contest = _Contest(launch, lab, min(max(int(_ROUND_NS / default_ns), _LEAST_REPS), _MOST_REPS))
        try:
            alive = self._play(contest, default, list(finalists))
            for _ in range(_EXTENSIONS):
                if not contest.is_open(default, alive):
                    break
                contest.play_rounds([default, *alive], self.rounds)
        except BudgetSpent:
            return default_kept(launch, default_ns, "the budget was spent before the re-test ended")
        best = min(alive, key=contest.median_ns, default=None)
        if not contest.runs(default):
            return _without_default(launch, best, contest)
        if best is None:
            return default_kept(launch, contest.median_ns(default), "no other candidate came through the re-test")
        return _judge(launch, default, best, contest)

    def _play(self, contest: _Contest, default: Candidate, alive: list[Candidate]) -> list[Candidate]:
        """All rounds; those who are left at the end."""
        played = 0
        for until in (*_HALVING_ROUNDS, self.rounds):
            contest.play_rounds([default, *alive], until - played)
            alive = [candidate for candidate in alive if contest.runs(candidate)]
            if until < self.rounds:
                alive = sorted(alive, key=contest.median_ns)[: math.ceil(len(alive) / 2)]
            played = until
        return alive


class _Contest:
    """Samples of one launch, round by round."""

    def __init__(self, launch: TrialLaunch, lab: Lab, reps: int) -> None:
        self._launch, self._lab, self._reps = launch, lab, reps
        self.rounds: dict[Candidate, list[tuple[float, ...]]] = {}
        self._out: set[Candidate] = set()
        self._unit = ""

    def play_rounds(self, candidates: Sequence[Candidate], count: int) -> None:
        """Times each once a round, every other round in reverse; one that fails is out for good."""
        for number in range(count):
            for candidate in reversed(candidates) if number % 2 else candidates:
                if candidate not in self._out:
                    self._time(candidate)

    def _time(self, candidate: Candidate) -> None:
        trial = self._lab.trial(self._launch, candidate, self._reps, fresh=True)
        if trial.unit != self._unit:  # the one before was lost: samples of two units are no contest
            self.rounds.clear()
            self._unit = trial.unit
        if trial.status == Status.OK:
            self.rounds.setdefault(candidate, []).append(trial.ns)
        else:
            self._out.add(candidate)

    def is_open(self, default: Candidate, alive: Sequence[Candidate]) -> bool:
        """Whether the best seems to gain, but not beyond the noise."""
        best = min(alive, key=self.median_ns, default=None)
        ratio = self.ratio(best, default) if best and self.runs(best) and self.runs(default) else None
        return ratio is not None and not ratio.is_faster and ratio.gain_percent > _WORTH_MORE_ROUNDS

    def ratio(self, candidate: Candidate, default: Candidate) -> Ratio | None:
        return ratio_of_medians(self.rounds[candidate], self.rounds[default])

    def runs(self, candidate: Candidate) -> bool:
        return candidate in self.rounds and candidate not in self._out

    def median_ns(self, candidate: Candidate) -> float:
        samples = [ns for each in self.rounds.get(candidate, ()) for ns in each]
        return statistics.median(samples) if samples else math.nan


def _without_default(launch: TrialLaunch, best: Candidate | None, contest: _Contest) -> Verdict:
    if best is None:
        return nothing_runs(launch)
    return Verdict(launch, best, math.nan, contest.median_ns(best), "the default gives no right result")


def _judge(launch: TrialLaunch, default: Candidate, best: Candidate, contest: _Contest) -> Verdict:
    default_ns = contest.median_ns(default)
    ratio = contest.ratio(best, default)
    if ratio is None:
        return default_kept(launch, default_ns, "too few rounds for a verdict")
    low, high = ratio.gain_interval
    gain = f"{best} gains {ratio.gain_percent:.1f} % ({low:.1f} to {high:.1f})"
    if ratio.low > 1.0:
        return default_kept(launch, default_ns, f"{best} is {-ratio.gain_percent:.1f} % slower", ratio)
    if not ratio.is_faster:
        return default_kept(launch, default_ns, f"{gain}, which is within the noise", ratio)
    return Verdict(launch, best, default_ns, contest.median_ns(best), gain, ratio)
