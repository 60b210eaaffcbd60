"""Metrics that are times: has the level moved beyond what the series varies by, and is that sure?

A change may have begun tonight or in one of the nights before; for each of these beginnings the nights since are
compared with those before. What looks changed is measured again in the same night as long as that tells something (a
sequential test: A. Wald, "Sequential tests of statistical hypotheses", 1945), and is confirmed by these measurements,
by a twin, or by further nights:

- A unit without a fan, or one whose device state has spoiled nights before, may be hot for a whole night without
  showing it. Only a twin or a second night confirms what it says.
- A twin that surely does not show the change leaves it to the second night too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from farm.decision.evidence import Evidence
from farm.decision.judgement import Judgement, Look, Verdict
from farm.decision.nights import Nights, level_of
from farm.decision.rules import Rules
from farm.decision.samples import logarithms
from farm.rows.series import Metric, Point, trimmed_mean

TELLS_NOTHING = 0.05  # share of the variance that further measurements would have to take away
HALF = 0.5
Z_95 = 1.96


@dataclasses.dataclass(frozen=True)
class Twin:
    """What another unit of the same SoC and model says of each possible beginning."""

    looks: tuple[Look, ...]

    def shows(self, look: Look, rules: Rules) -> bool:
        """Whether both units show it by about as much, and more surely than chance lets two units do."""
        other = self._of_same_nights(look)
        if other is None or not HALF * abs(look.change) <= other.change * _sign(look.change) <= abs(look.change) / HALF:
            return False
        if look.nights > 1 and min(look.weakest, other.weakest) < rules.seen:
            return False
        least, both = min(look.score, other.score), (look.score + other.score) / math.sqrt(2)
        return least >= rules.each and both >= rules.joint

    def denies(self, look: Look) -> bool:
        """Whether it surely shows less than half of it."""
        other = self._of_same_nights(look)
        if other is None:
            return False
        return other.change * _sign(look.change) + Z_95 * other.error < HALF * abs(look.change)

    def _of_same_nights(self, look: Look) -> Look | None:
        return next((other for other in self.looks if other.nights == look.nights), None)


def _sign(change: float) -> float:
    return math.copysign(1.0, change)


class Timed:
    """The judgement of one night with a figure."""

    def __init__(
        self,
        nights: Nights,
        tonight: Point,
        metric: Metric,
        rules: Rules,
        twin: Twin | None = None,
        final: bool = False,
    ) -> None:
        self._nights, self._tonight, self._twin, self._rules = nights, tonight, twin, rules
        self._final = final
        self._is_hot_prone = tonight.passive or nights.heats or bool(tonight.spoiled)
        self._start = nights.start(rules)
        self._confirm = rules.confirm_drifting if self._is_hot_prone else rules.confirm
        self._smallest = math.log(rules.smallest[metric])

    def judge(self) -> Judgement:
        """The verdict, without p-value and effect."""
        if len(self._nights) - self._start < self._rules.least:
            known = len(self._nights)
            return Judgement(Verdict.NEW, f"{known} of the {self._rules.least} nights that it takes to judge by")
        self._model = self._nights.model(self._rules, self._is_hot_prone)
        self._evidence = Evidence(self._nights.then(self._tonight), self._start, self._model, self._rules)
        self._looks = self._evidence.looks()
        looks = sorted(self._looks, key=lambda look: -look.score)
        best = looks[0]
        for look in looks:
            if self._is_change(look) and (proof := self._proof(look)) and not self._more(look):
                verdict = Verdict.REGRESSION if look.change > 0 else Verdict.IMPROVEMENT
                return self._found(look, verdict, f"{self._told(look)}, {proof}")
        if asking := next((look for look in looks if self._more(look)), None):
            more = self._more(asking)
            return self._provisional(asking, f"{more} more measurements will tell", more)
        if best.score >= self._rules.told and abs(best.change) >= self._smallest and self._is_tonight(best):
            return self._provisional(best, self._doubt(best))
        return self._found(best, Verdict.UNCHANGED, f"{self._told(best)}: as before")

    def _is_change(self, look: Look) -> bool:
        """Whether there is one, whatever it comes from."""
        is_sure = look.score >= self._confirm or self._is_confirmed_by_twin(look)
        return is_sure and self._is_worth_telling(look)

    def _is_worth_telling(self, look: Look) -> bool:
        return abs(look.change) >= self._smallest and self._is_tonight(look)

    def _is_tonight(self, look: Look) -> bool:
        """Whether tonight shows it too: at least half of it."""
        return self._shows(look, level_of(self._tonight))

    def _shows(self, look: Look, figure: float) -> bool:
        return (figure - look.baseline) * _sign(look.change) >= HALF * abs(look.change)

    def _is_confirmed_by_twin(self, look: Look) -> bool:
        return self._twin is not None and self._twin.shows(look, self._rules)

    def _proof(self, look: Look) -> str:
        """What confirms a change; empty when nothing does."""
        again = logarithms(self._tonight.runs[len(self._tonight.runs) - self._tonight.reruns :])
        is_measured_again = bool(self._tonight.reruns and len(again))
        if is_measured_again and not self._is_shown_by(trimmed_mean(list(again)), look):
            return ""
        if self._is_confirmed_by_twin(look):
            return "confirmed by its twin"
        if look.score < self._confirm:
            return ""
        if look.weakest >= (self._rules.again if self._is_hot_prone else self._rules.seen):
            return f"seen in {look.nights} nights"
        is_alone = look.nights == 1 and not self._is_hot_prone
        is_denied = self._twin is not None and self._twin.denies(look)
        if is_alone and not is_denied and is_measured_again:
            return f"confirmed by {self._tonight.reruns} further measurements"
        return ""

    def _is_shown_by(self, again: float, look: Look) -> bool:
        """Whether the further measurements by themselves show half of it, of tonight's, and what is worth telling."""
        moved, tonight = ((each - look.baseline) * _sign(look.change) for each in (again, level_of(self._tonight)))
        return moved >= max(HALF * abs(look.change), HALF * tonight, self._smallest)

    def _more(self, look: Look) -> int:
        """How many further measurements would tell something."""
        rules, first = self._rules, len(self._tonight.runs) - self._tonight.reruns
        batch = math.ceil(first / 2)
        if self._final or first < 2 or self._tonight.reruns >= rules.most_batches * batch:
            return 0
        if self._is_change(look) and (self._proof(look) or self._is_hot_prone):
            return 0 if self._tonight.reruns else batch  # what is confirmed was measured twice
        if look.score < (rules.acquit if self._tonight.reruns else rules.suspect):
            return 0
        if abs(look.change) + 2 * look.error < rules.sought * self._smallest:
            return 0
        return batch if self._gain(batch) > TELLS_NOTHING * look.error**2 else 0

    def _gain(self, batch: int) -> float:
        """By how much further measurements would lessen the variance of tonight's figure."""
        count = len(self._tonight.runs)
        return self._model.within / count - self._model.within / (count + batch)

    def _doubt(self, best: Look) -> str:
        """Why a change is not certain yet."""
        if best.score < self._confirm:
            return "not certain yet"
        if self._twin and self._twin.denies(best):
            return "its twin does not show it; a second night decides"
        if self._is_hot_prone:
            return "the unit may be hot without showing it; a twin or a second night decides"
        return "a second night decides"

    def _provisional(self, best: Look, reason: str, more: int = 0) -> Judgement:
        is_worse = best.change > 0
        verdict = Verdict.PROVISIONAL_REGRESSION if is_worse else Verdict.PROVISIONAL_IMPROVEMENT
        return dataclasses.replace(self._found(best, verdict, f"{self._told(best)}: {reason}"), more=more)

    def _found(self, look: Look, verdict: Verdict, reason: str) -> Judgement:
        width = self._evidence.width(look.error)
        return Judgement(
            verdict,
            reason,
            baseline=math.exp(look.baseline),
            baseline_nights=len(self.baseline_of(look.nights)),
            ratio=math.exp(look.change),
            low=math.exp(look.change - width),
            high=math.exp(look.change + width),
            nights=look.nights,
            noise=self._model.noise,
            looks=tuple(self._looks),
        )

    def baseline_of(self, nights: int) -> Sequence[Point]:
        """The nights before the last so many."""
        end = len(self._nights) - nights + 1
        return self._nights.points[max(self._start, len(self._nights) - self._rules.window) : end]

    def _told(self, look: Look) -> str:
        width = self._evidence.width(look.error)
        low, ratio, high = (100 * math.expm1(look.change + side * width) for side in (-1, 0, 1))
        return f"{ratio:+.1f} % ({low:+.1f} to {high:+.1f} %) against {len(self.baseline_of(look.nights))} nights"
