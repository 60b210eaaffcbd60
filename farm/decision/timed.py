"""Metrics that are times: has the level risen beyond what the series varies by, and is that sure?

A change may have begun tonight or in one of the nights before; for each of these beginnings the nights since are
pooled and compared with the baseline, the nights since the last accepted step. What looks changed is measured again in
the same night, as long as that tells something (a sequential test: A. Wald, "Sequential tests of statistical
hypotheses", 1945), and is confirmed by these measurements, by a twin, or by a second night:

- A unit without a fan, or one whose device state has spoiled nights before, may be hot without showing it, for a whole
  night. Only a twin or a second night confirms what it says.
- A twin that does not show the change leaves it to the second night too.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import stats

from farm.decision.judgement import Judgement, Verdict
from farm.decision.noise import Model, centre
from farm.decision.rules import Rules
from farm.decision.samples import compare_samples, logarithms
from farm.decision.stretch import Stretch, level
from farm.series import Metric, Point

TOLD = 3.0  # standard errors from which what is not confirmed is told as provisional
TELLS_NOTHING = 0.05  # share of the variance that further measurements would have to take away
HALF = 0.5
PLAUSIBLE = 0.975


@dataclasses.dataclass(frozen=True)
class Twin:
    """What another unit of the same SoC and model says: tonight over its baseline, with the 95 % interval."""

    ratio: float
    low: float
    high: float

    def confirms(self, change: float) -> bool:
        """Whether it shows the change (of the logarithm) too, at least half of it and beyond its own noise."""
        edge = self.low if change > 0 else 1 / self.high
        return edge > 1 and abs(math.log(self.ratio)) >= HALF * abs(change)

    def denies(self, change: float) -> bool:
        """Whether it surely shows less than half of it."""
        most = math.log(self.high) if change > 0 else -math.log(self.low)
        return most < HALF * abs(change)


@dataclasses.dataclass(frozen=True)
class Look:
    """The nights since a possible beginning, against the baseline: change of the logarithm, and its standard error.

    `showing` of these `nights` have by themselves half of the change or more.
    """

    change: float
    error: float
    nights: int
    showing: int

    @property
    def score(self) -> float:
        """In standard errors."""
        return abs(self.change) / self.error


def judge_timed(stretch: Stretch, tonight: Point, metric: Metric, rules: Rules, twin: Twin | None) -> Judgement:
    """The verdict on a night with figures."""
    if len(stretch.points) - stretch.start < rules.least:
        nights = len(stretch.points)
        return Judgement(Verdict.NEW, f"{nights} of the {rules.least} nights before that are needed to judge by")
    model = stretch.model(rules)
    looks = _looks(stretch, tonight, model, rules)
    best = max(looks, key=lambda look: look.score)
    found = _found(stretch, tonight, model, best, rules)
    smallest = math.log(rules.smallest[metric])
    if best.score < threshold(rules.suspect, model) or abs(best.change) < HALF * smallest:
        return dataclasses.replace(found, reason=_as_before(found))
    return _suspected(found, best, looks[0], tonight, stretch, model, smallest, rules, twin)


def _suspected(
    found: Judgement,
    best: Look,
    alone: Look,
    tonight: Point,
    stretch: Stretch,
    model: Model,
    smallest: float,
    rules: Rules,
    twin: Twin | None,
) -> Judgement:
    is_change = best.score >= threshold(rules.confirm, model) and abs(best.change) >= smallest
    is_change = is_change and alone.change * best.change > 0 and abs(alone.change) >= HALF * abs(best.change)
    more = _more(tonight, best, is_change, model, rules)
    if more:
        return _provisional(found, best, f"{_told(found)}: {more} more measurements will tell", more)
    if not is_change:
        if best.score < threshold(TOLD, model) or abs(best.change) < smallest:
            return dataclasses.replace(found, reason=_as_before(found))
        return _provisional(found, best, f"{_told(found)}, which is not certain yet")
    if doubt := _doubt(best, tonight, stretch, twin):
        return _provisional(found, best, f"{_told(found)}: {doubt}")
    verdict = Verdict.REGRESSION if best.change > 0 else Verdict.IMPROVEMENT
    return dataclasses.replace(found, verdict=verdict, reason=f"{_told(found)}, {_proof(best, tonight, twin)}")


def _looks(stretch: Stretch, tonight: Point, model: Model, rules: Rules) -> list[Look]:
    """For each beginning that leaves a baseline, tonight's first."""
    available = len(stretch.points) - stretch.start
    return [
        _look(stretch, tonight, model, earlier, rules)
        for earlier in range(min(rules.pooled, available - rules.least + 1))
    ]


def _look(stretch: Stretch, tonight: Point, model: Model, earlier: int, rules: Rules) -> Look:
    end = len(stretch.levels) - earlier
    begin = max(stretch.start, end - rules.window)
    base = centre(stretch.levels[begin:end])
    levels = np.append(stretch.levels[end:], level(tonight)) - base
    counts = np.append(stretch.counts[end:], len(logarithms(tonight.runs)))
    change = float(np.average(levels, weights=counts))
    variance = model.variance([int(count) for count in counts])
    variance += model.baseline_variance(end - begin, float(np.median(stretch.counts[begin:end])))
    showing = int(np.sum(levels * math.copysign(1.0, change) >= HALF * abs(change)))
    return Look(change, math.sqrt(variance), len(levels), showing)


def _more(tonight: Point, best: Look, is_change: bool, model: Model, rules: Rules) -> int:
    """How many further measurements would tell something: a night's worth, or none."""
    worth = len(tonight.runs) - tonight.reruns
    batches = math.ceil(tonight.reruns / worth) if worth > 0 else rules.batches
    if worth < 2 or batches >= rules.batches:
        return 0
    if is_change:
        return 0 if batches else worth  # what is confirmed was measured twice
    if batches and best.score < threshold(rules.acquit, model):
        return 0
    count = len(tonight.runs)
    gain = model.within / count - model.within / (count + worth)
    return worth if not batches or gain > TELLS_NOTHING * best.error**2 else 0


def _doubt(best: Look, tonight: Point, stretch: Stretch, twin: Twin | None) -> str:
    """Why a change of this night is not certain yet; empty when it is."""
    if best.showing >= 2 or (twin and twin.confirms(best.change)):
        return ""
    if twin and twin.denies(best.change):
        return "its twin does not show it; a second night decides"
    if tonight.passive or any(point.spoiled for point in stretch.points):
        return "a unit that may be hot without showing it; a twin or a second night decides"
    if not tonight.reruns:
        return "measured once only; a second night decides"
    return ""


def _proof(best: Look, tonight: Point, twin: Twin | None) -> str:
    if twin and twin.confirms(best.change):
        return "confirmed by its twin"
    if best.showing >= 2:
        return f"seen in {best.showing} nights"
    return f"confirmed by {tonight.reruns} further measurements"


def _found(stretch: Stretch, tonight: Point, model: Model, best: Look, rules: Rules) -> Judgement:
    """All figures; the verdict is that nothing changed."""
    end = len(stretch.levels) - (best.nights - 1)
    begin = max(stretch.start, end - rules.window)
    before = stretch.points[begin:end]
    compared = compare_samples([point.value or math.nan for point in before], tonight.runs)
    width = float(stats.t.ppf(PLAUSIBLE, model.degrees)) * best.error
    return Judgement(
        verdict=Verdict.UNCHANGED,
        reason="",
        baseline=math.exp(centre(stretch.levels[begin:end])),
        baseline_nights=len(before),
        ratio=math.exp(best.change),
        low=math.exp(best.change - width),
        high=math.exp(best.change + width),
        p_value=compared.p_value if compared else None,
        effect=compared.effect if compared else None,
        noise=model.noise,
    )


def _provisional(found: Judgement, best: Look, reason: str, more: int = 0) -> Judgement:
    verdict = Verdict.PROVISIONAL_REGRESSION if best.change > 0 else Verdict.PROVISIONAL_IMPROVEMENT
    return dataclasses.replace(found, verdict=verdict, reason=reason, more=more)


def threshold(score: float, model: Model) -> float:
    """A threshold for a normal distribution, as it is where the variance is an estimate."""
    return float(stats.t.isf(stats.norm.sf(score), model.degrees))


def _told(found: Judgement) -> str:
    assert found.ratio and found.low and found.high
    percent = abs(100 * (found.ratio - 1))
    word = "higher" if found.ratio > 1 else "lower"
    low, high = sorted(abs(100 * (edge - 1)) for edge in (found.low, found.high))
    return f"{percent:.1f} % {word} ({low:.1f} to {high:.1f} %) than in the {found.baseline_nights} nights before"


def _as_before(found: Judgement) -> str:
    assert found.ratio and found.low and found.high
    return (
        f"{100 * (found.ratio - 1):+.1f} % ({100 * (found.low - 1):+.1f} to {100 * (found.high - 1):+.1f} %): as before"
    )
