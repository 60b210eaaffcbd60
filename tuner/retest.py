"""The re-test: a launch's best candidates run interleaved with the default; the one that wins is then confirmed.

Interleaved rounds spread a disturbance over all candidates. Where a unit times the default in turns with each
repetition of a candidate, times are relative to the default of the same milliseconds, whatever state the unit is in.
The rounds that choose the winner do not confirm it: the fastest of several that are the same looks faster than it is.
Confirming rounds are looked at up to three times, and the chance of an error is spent over the looks (K. Lan and D.
DeMets, "Discrete sequential boundaries for clinical trials", 1983), so that a launch's default loses by chance less
than once in 200.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch
from runtime.statistics.ratios import Ratio, chance_of_pairs, ratio_of_medians
from tuner.space import default_candidate
from tuner.trial import Candidate, TrialStatus
from tuner.trial_runner import BudgetSpent, TrialRunner
from tuner.verdict import LaunchVerdict, default_kept, nothing_runs

_HALVING_ROUNDS = (2, 2)  # after so many rounds each the slower half of the finalists leaves
_ALPHA_SPENT = (0.0025, 0.00125, 0.00125)  # at each look
_LEAST_REPS, _MOST_REPS = 3, 20
_ROUND_NS = 2e6  # repetitions of a round aim at so much time
_WORTH_MORE_ROUNDS = 0.004  # of the time
_FUTILE = 0.25  # a chance that further rounds hardly ever make small enough
_HEAVY_SHARE = 0.1  # from here on a launch gets all that there is
_MORE_FINALISTS, _MORE_GROWTH = 3, 2.0


@dataclasses.dataclass(frozen=True)
class Retest:
    """Settings: how many candidates take part, and how many rounds confirm the winner before the first look.

    `growth`: how many times as many each later look has as the one before it. `least_gain`: the share of its time for
    which a launch leaves its default.
    """

    finalists: int
    rounds: int
    growth: float = 1.0
    least_gain: float = 0.0

    @property
    def looks(self) -> list[int]:
        """Rounds before each look, beside those before the looks until then."""
        return [math.ceil(self.rounds * self.growth**look) for look in range(len(_ALPHA_SPENT))]

    def for_share(self, share: float) -> Retest:
        """More for a launch that takes much of the models' time, where a small gain counts.

        A large gain is seen at the first look, whatever the share; the later looks are up to three times as long each.

        Args:
            share: 0 to 1.
        """
        weight = min(share / _HEAVY_SHARE, 1.0)
        finalists, growth = self.finalists + int(_MORE_FINALISTS * weight), 1.0 + _MORE_GROWTH * weight
        return dataclasses.replace(self, finalists=finalists, growth=growth)

    def begin(
        self, launch: TrialLaunch, finalists: Sequence[Candidate], default_ns: float, runner: TrialRunner
    ) -> RunningRetest:
        """The re-test of a launch, of which nothing is measured yet.

        `default_ns` is the default's time in the search, infinite where the default gives no right result: then any
        finalist that gives one wins.
        """
        reps = runner.repetitions(launch, default_ns, _ROUND_NS, _LEAST_REPS, _MOST_REPS)
        choosing, confirming = (_InterleavedSamples(launch, runner, reps) for _ in range(2))
        return RunningRetest(launch, list(finalists), default_ns, self, choosing, confirming)

    def decide(
        self, launch: TrialLaunch, finalists: Sequence[Candidate], default_ns: float, runner: TrialRunner
    ) -> LaunchVerdict:
        """The verdict after as many looks as it takes."""
        running = self.begin(launch, finalists, default_ns, runner)
        while running.is_undecided:
            running.look()
        return running.verdict


class RunningRetest:
    """Chooses the best finalist; it wins if other rounds than those show it faster, beyond the noise.

    It pauses after each look, so that a launch in doubt does not spend what others need for their first one.

    Attributes:
        verdict: by what was measured so far.
        is_undecided: whether a further look may change that.
    """

    def __init__(
        self,
        launch: TrialLaunch,
        finalists: list[Candidate],
        default_ns: float,
        settings: Retest,
        choosing: _InterleavedSamples,
        confirming: _InterleavedSamples,
    ) -> None:
        self._launch, self._finalists, self._default = launch, finalists, default_candidate(launch)
        self._looks = list(zip(_ALPHA_SPENT, settings.looks, strict=True))
        self._least_gain = settings.least_gain
        self._choosing, self._confirming = choosing, confirming
        self._best = finalists[0] if len(finalists) == 1 and math.isfinite(default_ns) else None
        self.verdict = default_kept(launch, default_ns, "the budget was spent before the re-test ended")
        self.is_undecided = True

    def look(self) -> None:
        """Measures until the next look; where the budget ends before it, the verdict stays as it is."""
        self.is_undecided = False
        with contextlib.suppress(BudgetSpent):
            self._best = self._best or self._chosen()
            self.verdict = self._looked_at(self._best) if self._best else self._without_choice()

    def _chosen(self) -> Candidate | None:
        """The fastest finalist, the slower ones having left on the way; None where it has no default to beat."""
        alive = self._finalists
        for rounds in _HALVING_ROUNDS:
            self._choosing.measure_rounds([self._default, *alive], rounds)
            alive = sorted(filter(self._choosing.runs, alive), key=self._choosing.median_ns)
            alive = alive[: math.ceil(len(alive) / 2)]
            if len(alive) < 2:
                break
        self._finalists = alive
        return alive[0] if alive and self._choosing.runs(self._default) else None

    def _without_choice(self) -> LaunchVerdict:
        if not self._choosing.runs(self._default):
            return _without_default(self._launch, next(iter(self._finalists), None), self._choosing)
        why = "no other candidate came through the re-test"
        return default_kept(self._launch, self._choosing.default_ns(), why)

    def _looked_at(self, best: Candidate) -> LaunchVerdict:
        """Measures the rounds of the next look; in doubt as long as something speaks for the best candidate."""
        alpha, rounds = self._looks.pop(0)
        samples = self._confirming
        samples.measure_rounds([self._default, best], rounds)
        if not (samples.runs(best) and samples.runs(self._default)):
            return default_kept(self._launch, samples.default_ns(), f"{best} did not come through the re-test")
        chance = chance_of_pairs(*samples.medians(best))
        gain = 1.0 - samples.median_ns(best) / samples.default_ns(best)
        is_in_doubt = alpha < chance <= _FUTILE and gain > max(_WORTH_MORE_ROUNDS, self._least_gain)
        self.is_undecided = is_in_doubt and bool(self._looks)
        return _verdict_on(self._launch, best, samples, chance if chance <= alpha else None, self._least_gain)


class _InterleavedSamples:
    """The samples of one launch's candidates, round by round; `beside` are those of the default in turns with them."""

    def __init__(self, launch: TrialLaunch, runner: TrialRunner, reps: int) -> None:
        self._launch, self._runner, self._reps = launch, runner, reps
        self.rounds: dict[Candidate, list[tuple[float, ...]]] = {}
        self.beside: dict[Candidate, list[tuple[float, ...]]] = {}
        self._default = default_candidate(launch)
        self._failed: set[Candidate] = set()
        self._unit = ""

    def measure_rounds(self, candidates: Sequence[Candidate], count: int) -> None:
        """Times each candidate once a round, every other round in reverse order; one that fails is not timed again.

        A default that was timed beside all others needs no further time of its own.
        """
        for number in range(count):
            for candidate in reversed(candidates) if number % 2 else candidates:
                if candidate not in self._failed and not (candidate == self._default and self.beside):
                    self._time(candidate)

    def _time(self, candidate: Candidate) -> None:
        trial = self._runner.trial(self._launch, candidate, self._reps, fresh=True)
        if trial.unit != self._unit:  # the unit before was lost, and samples of two units cannot be compared
            self.rounds.clear()
            self.beside.clear()
            self._unit = trial.unit
        if trial.status == TrialStatus.OK:
            self.rounds.setdefault(candidate, []).append(trial.ns)
            if trial.own_ns:
                default_ns = self._runner.default_ns(self._launch)
                self.beside.setdefault(candidate, []).append((default_ns,) * len(trial.ns))
        else:
            self._failed.add(candidate)

    def ratio(self, candidate: Candidate) -> Ratio | None:
        """The candidate's time over the default's."""
        return ratio_of_medians(self.rounds[candidate], self._default_rounds(candidate))

    def medians(self, candidate: Candidate) -> tuple[list[float], list[float]]:
        """The medians of the candidate and of the default in each round."""
        both = (self.rounds[candidate], self._default_rounds(candidate))
        first, second = ([statistics.median(round_ns) for round_ns in rounds] for rounds in both)
        return first, second

    def default_ns(self, beside: Candidate | None = None) -> float:
        """The default's median time, of the rounds beside a candidate where there are such."""
        rounds = self._default_rounds(beside) if beside else self.rounds.get(self._default, [])
        return _median(rounds)

    def _default_rounds(self, candidate: Candidate) -> list[tuple[float, ...]]:
        return self.beside.get(candidate) or self.rounds.get(self._default, [])

    def runs(self, candidate: Candidate) -> bool:
        return candidate in self.rounds and candidate not in self._failed

    def median_ns(self, candidate: Candidate) -> float:
        return _median(self.rounds.get(candidate, []))


def _median(rounds: Sequence[Sequence[float]]) -> float:
    times_ns = [ns for round_ns in rounds for ns in round_ns]
    return statistics.median(times_ns) if times_ns else math.nan


def _without_default(launch: TrialLaunch, best: Candidate | None, samples: _InterleavedSamples) -> LaunchVerdict:
    if best is None:
        return nothing_runs(launch)
    return LaunchVerdict(launch, best, math.nan, samples.median_ns(best), "the default gives no right result")


def _verdict_on(
    launch: TrialLaunch, best: Candidate, samples: _InterleavedSamples, chance: float | None, least_gain: float
) -> LaunchVerdict:
    """The verdict on a candidate that came through; `chance` is None where no look confirmed it."""
    default_ns = samples.default_ns(best)
    ratio = samples.ratio(best)
    if ratio is None:
        return default_kept(launch, default_ns, "too few rounds for a verdict")
    low, high = ratio.gain_interval
    gain = f"{best} gains {ratio.gain_percent:.1f} % ({low:.1f} to {high:.1f})"
    if ratio.low > 1.0:
        return default_kept(launch, default_ns, f"{best} is {-ratio.gain_percent:.1f} % slower", ratio)
    if chance is None:
        return default_kept(launch, default_ns, f"{gain}, which is within the noise", ratio)
    if 1.0 - ratio.value < least_gain:
        return default_kept(launch, default_ns, f"{gain}, too little to leave a default that was chosen here", ratio)
    return LaunchVerdict(launch, best, default_ns, samples.median_ns(best), gain, ratio, chance=chance)
