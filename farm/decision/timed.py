"""Judges metrics that are times: has the level moved by more than the noise, and is that confirmed?

A change may have begun tonight or in one of the nights before; for each of these onsets the nights since are compared
with those before. A series that seems changed is measured again in the same night while that is informative (a
sequential test: A. Wald, "Sequential tests of statistical hypotheses", 1945). These measurements, a twin, or further
nights confirm the change:

- A unit without a fan, or one whose device state has spoiled nights before, may be hot for a whole night without
  showing it. Only a twin or a second night confirms its change.
- Where a twin surely does not show the change, a second night must confirm it too.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from farm.decision.evidence import Evidence
from farm.decision.history import SeriesHistory, level_of
from farm.decision.judgement import Judgement, OnsetTest, Verdict
from farm.decision.noise import NoiseModel
from farm.decision.rules import Rules
from farm.decision.samples import logarithms
from farm.rows.series import Metric, Point, trimmed_mean

TELLS_NOTHING = 0.05  # share of the variance that further measurements would have to take away
HALF = 0.5
Z_95 = 1.96


@dataclasses.dataclass(frozen=True)
class TwinEvidence:
    """Evidence of a twin, another unit of the same SoC and model: its tests of each possible onset.

    `others`: those of units of other kinds in the same night; what they show too has a cause that is common to all.
    """

    looks: tuple[OnsetTest, ...]
    others: tuple[tuple[OnsetTest, ...], ...] = ()

    def shows(self, onset: OnsetTest, rules: Rules) -> bool:
        """Whether both units show a similar change, with joint and single scores beyond the thresholds."""
        other = self._of_same_nights(onset)
        if other is None:
            return False
        size, other_size = abs(onset.change), other.change * _sign(onset.change)
        if not HALF * size <= other_size <= size / HALF:
            return False
        if onset.nights > 1 and min(onset.weakest, other.weakest) < rules.leave_one_out:
            return False
        least, both = min(onset.score, other.score), (onset.score + other.score) / math.sqrt(2)
        are_beyond = least >= rules.each_with_twin and both >= rules.joint_with_twin
        return are_beyond and not self._is_common(onset, rules)  # which asks all other units: only where it matters

    def denies(self, onset: OnsetTest) -> bool:
        """Whether the twin shows less than half of the change at 95 % confidence."""
        other = self._of_same_nights(onset)
        if other is None:
            return False
        return other.change * _sign(onset.change) + Z_95 * other.error < HALF * abs(onset.change)

    def _is_common(self, onset: OnsetTest, rules: Rules) -> bool:
        """Whether half of the other units, and at least one, have moved to the same side."""
        looks = (next((look for look in each if look.nights == onset.nights), None) for each in self.others)
        scores = [look.score * _sign(look.change) * _sign(onset.change) for look in looks if look]
        return bool(scores) and sum(score >= rules.each_with_twin for score in scores) >= HALF * len(scores)

    def _of_same_nights(self, onset: OnsetTest) -> OnsetTest | None:
        return next((other for other in self.looks if other.nights == onset.nights), None)


def _sign(change: float) -> float:
    return math.copysign(1.0, change)


class TimedTest:
    """The test of one night's timed figure against its history."""

    def __init__(
        self,
        nights: SeriesHistory,
        tonight: Point,
        metric: Metric,
        rules: Rules,
        twin: TwinEvidence | None = None,
        final: bool = False,
    ) -> None:
        self._nights, self._measured, self._twin, self._rules = nights, tonight, twin, rules
        self._tonight = nights.corrected(tonight)
        self._final, self._lower_is_better = final, metric.info.lower_is_better
        self._is_hot_prone = tonight.passive or nights.has_spoiled or bool(tonight.spoiled)
        self._confirm = rules.confirm_drifting if self._is_hot_prone else rules.confirm
        self._least_leave_one_out = rules.leave_one_out_drifting if self._is_hot_prone else rules.leave_one_out
        self._smallest = math.log(rules.smallest(metric))

    @functools.cached_property
    def _start(self) -> int:
        return self._nights.start(self._rules)

    @functools.cached_property
    def _model(self) -> NoiseModel:
        return self._nights.model(self._rules, self._is_hot_prone)

    @functools.cached_property
    def _evidence(self) -> Evidence:
        begin = max(self._start, len(self._nights) - self._rules.window_nights)
        level, count = self._nights.figure(self._measured)
        levels, counts = np.append(self._nights.levels[begin:], level), np.append(self._nights.counts[begin:], count)
        return Evidence(levels, counts, self._model, self._rules)

    @functools.cached_property
    def looks(self) -> tuple[OnsetTest, ...]:
        """The test of each possible onset; none while the history is too short."""
        return tuple(self._evidence.looks()) if self._has_history else ()

    @property
    def _has_history(self) -> bool:
        return len(self._nights) - self._start >= self._rules.least_nights

    @functools.cached_property
    def _level(self) -> float:
        return level_of(self._tonight)

    def judge(self) -> Judgement:
        """The verdict, without p-value and effect."""
        if not self._has_history:
            count, least = len(self._nights), self._rules.least_nights
            return Judgement(Verdict.NEW, f"{count} of the {least} nights that it takes to judge by")
        onsets = sorted(self.looks, key=lambda onset: -onset.score)
        best = onsets[0]
        for onset in onsets:
            if self._is_change(onset) and (proof := self._proof(onset)) and not self._useful_measurements(onset):
                if self._has_precedent(onset):
                    continue
                verdict = Verdict.REGRESSION if self._is_worse(onset) else Verdict.IMPROVEMENT
                return self._judgement(onset, verdict, f"{self._percent_text(onset)}, {proof}")
        if undecided := next((onset for onset in onsets if self._useful_measurements(onset)), None):
            more = self._useful_measurements(undecided)
            return self._provisional(undecided, f"{more} more measurements will tell", more)
        if best.score >= self._rules.provisional and abs(best.change) >= self._smallest and self._shows_tonight(best):
            return self._provisional(best, self._why_unconfirmed(best))
        return self._judgement(best, Verdict.UNCHANGED, f"{self._percent_text(best)}: as before")

    def _is_worse(self, onset: OnsetTest) -> bool:
        return (onset.change > 0) == self._lower_is_better

    def _is_change(self, onset: OnsetTest) -> bool:
        """Whether there is a change that is worth reporting, whatever caused it."""
        is_sure = onset.score >= self._confirm or self._is_confirmed_by_twin(onset)
        return is_sure and self._is_worth_telling(onset)

    def _has_precedent(self, onset: OnsetTest) -> bool:
        """Whether the series has moved like this before; tonight may be measured more precisely than those nights.

        A young series cannot tell yet whether it has odd nights; then one night by itself proves nothing.
        """
        rules, nights = self._rules, self._nights
        if rules.precedent == math.inf:
            return False
        if onset.nights == 1 and not self._is_confirmed_by_twin(onset) and len(nights) < rules.young_nights:
            return True
        moves = nights.moves(onset.nights)
        usual, now = (
            self._model.between + self._model.within / count for count in (nights.usual_count, len(self._tonight.runs))
        )
        change = onset.change * math.sqrt(usual / now)
        return moves is not None and moves.has_precedent(
            change, nights.restless_shifts, rules.precedent, max(rules.onset_nights) - 1
        )

    def _is_worth_telling(self, onset: OnsetTest) -> bool:
        return abs(onset.change) >= self._smallest and self._shows_tonight(onset)

    def _shows_tonight(self, onset: OnsetTest) -> bool:
        """Whether tonight's figure shows at least half of the change."""
        return (self._level - onset.baseline) * _sign(onset.change) >= HALF * abs(onset.change)

    def _is_confirmed_by_twin(self, onset: OnsetTest) -> bool:
        return self._twin is not None and self._twin.shows(onset, self._rules)

    def _proof(self, onset: OnsetTest) -> str:
        """What confirms a change; empty when nothing does."""
        is_measured_again = self._remeasured is not None
        if self._remeasured is not None and not self._is_shown_by(self._remeasured, onset):
            return ""
        if self._is_confirmed_by_twin(onset):
            return "confirmed by its twin"
        if onset.score < self._confirm:
            return ""
        if onset.weakest >= self._least_leave_one_out:
            return f"seen in {onset.nights} nights"
        is_alone = onset.nights == 1 and not self._is_hot_prone
        is_denied = self._twin is not None and self._twin.denies(onset)
        if is_alone and not is_denied and is_measured_again:
            return f"confirmed by {self._tonight.reruns} further measurements"
        return ""

    @functools.cached_property
    def _remeasured(self) -> float | None:
        """Level of the further measurements alone; None where none counts."""
        first = len(self._tonight.runs) - self._tonight.reruns
        values = logarithms(self._tonight.runs[first:])
        return trimmed_mean(values.tolist()) if len(values) else None

    def _is_shown_by(self, remeasured: float, onset: OnsetTest) -> bool:
        """Whether the further measurements alone show half of the change and of tonight's, and the smallest ratio."""
        figures = (remeasured, self._level)
        moved, tonight = ((figure - onset.baseline) * _sign(onset.change) for figure in figures)
        return moved >= max(HALF * abs(onset.change), HALF * tonight, self._smallest)

    def _useful_measurements(self, onset: OnsetTest) -> int:
        """How many further measurements would be informative; 0 where none would, or none may be made."""
        rules, first = self._rules, len(self._tonight.runs) - self._tonight.reruns
        batch = math.ceil(first / 2)
        if self._final or first < 2 or self._tonight.reruns >= rules.most_batches * batch:
            return 0
        if self._is_change(onset) and (self._proof(onset) or self._is_hot_prone):
            return 0 if self._tonight.reruns else batch  # what is confirmed was measured twice
        if onset.score < (rules.drop_suspicion if self._tonight.reruns else rules.suspect):
            return 0
        if abs(onset.change) + 2 * onset.error < rules.worth_measuring * self._smallest:
            return 0
        return batch if self._gain(batch) > TELLS_NOTHING * onset.error**2 else 0

    def _gain(self, batch: int) -> float:
        """By how much a batch of further measurements would reduce the variance of tonight's figure."""
        count = len(self._tonight.runs)
        return self._model.within / count - self._model.within / (count + batch)

    def _why_unconfirmed(self, best: OnsetTest) -> str:
        """Why a change is not certain yet."""
        if best.score < self._confirm:
            return "not certain yet"
        if self._has_precedent(best):
            return "it has moved as far before, or is too young to say; nights to come decide"
        if self._twin and self._twin.denies(best):
            return "its twin does not show it; a second night decides"
        if self._is_hot_prone:
            return "the unit may be hot without showing it; a twin or a second night decides"
        return "a second night decides"

    def _provisional(self, best: OnsetTest, reason: str, more: int = 0) -> Judgement:
        verdict = Verdict.PROVISIONAL_REGRESSION if self._is_worse(best) else Verdict.PROVISIONAL_IMPROVEMENT
        return dataclasses.replace(self._judgement(best, verdict, f"{self._percent_text(best)}: {reason}"), more=more)

    def _judgement(self, onset: OnsetTest, verdict: Verdict, reason: str) -> Judgement:
        width = self._evidence.width(onset.error)
        return Judgement(
            verdict,
            reason,
            baseline=math.exp(onset.baseline),
            baseline_nights=len(self.baseline_of(onset.nights)),
            ratio=math.exp(onset.change),
            low=math.exp(onset.change - width),
            high=math.exp(onset.change + width),
            nights=onset.nights,
            noise=self._model.noise,
            looks=self.looks,
            measured=self._percent_text(onset),
        )

    def baseline_of(self, nights: int) -> Sequence[Point]:
        """The baseline of an onset: the nights before the last `nights`."""
        end = len(self._nights) - nights + 1
        return self._nights.points[max(self._start, len(self._nights) - self._rules.window_nights) : end]

    def _percent_text(self, onset: OnsetTest) -> str:
        width = self._evidence.width(onset.error)
        low, ratio, high = (100 * math.expm1(onset.change + side * width) for side in (-1, 0, 1))
        return f"{ratio:+.1f} % ({low:+.1f} to {high:+.1f} %) against {len(self.baseline_of(onset.nights))} nights"
