"""The decision's thresholds, each with its reason. docs/measurement.md gives the figures that they lead to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from farm.rows.series import Metric


@dataclasses.dataclass(frozen=True)
class Rules:
    """Scores are standard errors of a normal distribution; with few nights, Student's t at the same odds.

    Attributes:
        confirm: a change is one from here on. One night in 70,000 is beyond it without a change; but a night has
            five beginnings, and up to 17 looks, as measurements come in.
        confirm_drifting: the same for a unit that drifts: how it does so is never known well.
        again: what further nights must show by themselves to confirm a night of a unit that may be hot unseen. Chance
            so confirms one such night in some 700.
        joint: what a unit and its twin must show together, of the same beginning, in standard errors of both.
        each: what each of the two must show of that: one hot unit does not speak for both.
        seen: as `again`, for a unit that does not get hot unseen, or has the word of a twin; it only says that no
            single night makes the change.
        told: what is not confirmed is told as provisional from here on.
        suspect: from here more is measured. Low: a change of 5 % at a noise of 3 % must seldom slip through.
        acquit: what further measurements must stay above, or the suspicion is dropped.
        sought: more is measured only if the change may well be so many times the smallest that is worth telling.
        most_batches: how many times half of a night's measurements may be made again: 5 % at a noise of 3 % needs that.
        beginnings: how many nights ago a change may have begun, tonight counted. What is older is history.
        window: nights that a baseline is made of, at most: the error of its level is an eighth of a night's.
        least: nights without which nothing is judged.
        smallest: change of a metric that is worth telling, as a ratio. Clocks and files make the starts noisier.
        prior_percent, prior_factor: what series vary by from night to night beyond their measurements, before
            anything is known of one: mostly within this factor of this percentage.
        drift_percent: no unit that gets hot varies by less from night to night; its room does not either.
    """

    confirm: float = 4.35
    confirm_drifting: float = 4.8
    again: float = 3.2
    joint: float = 4.6
    each: float = 2.0
    seen: float = 1.5
    told: float = 3.0
    suspect: float = 0.8
    acquit: float = 0.9
    sought: float = 2.0
    most_batches: int = 16
    beginnings: tuple[int, ...] = (1, 2, 3, 5, 8)
    window: int = 60
    least: int = 4
    smallest: Mapping[Metric, float] = dataclasses.field(
        default_factory=lambda: {
            Metric.LATENCY: 1.02,
            Metric.INIT: 1.10,
            Metric.FIRST: 1.10,
            Metric.TUNED_RATIO: 1.03,
        }
    )
    prior_percent: float = 1.0
    prior_factor: float = 3.0
    drift_percent: float = 1.0


RULES = Rules()
