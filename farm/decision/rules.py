"""The decision's thresholds, each with its reason. docs/measurement.md gives the figures that they lead to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from farm.series import Metric


@dataclasses.dataclass(frozen=True)
class Rules:
    """Thresholds in standard errors are a normal distribution's; with few nights, Student's t at the same odds.

    Attributes:
        confirm: a change is one from here. Beyond it is one night in some ten thousand without a change, for less
            than a false alarm in twenty years, three looks a night and tails that are not normal included.
        suspect: from here more is measured. Low, since a step of three standard deviations must not slip through.
        acquit: what further measurements must stay above, or the suspicion is dropped; between the two.
        batches: how many times a night's worth of blocks may be measured again.
        pooled: over how many of the last nights a change may have begun.
        window: nights that a baseline is made of, at most: long enough for a standard error of an eighth.
        least: nights without which nothing is judged.
        smallest: change of a metric that is worth telling, as a ratio.
        prior_nights, prior_percent: what a new series is thought to vary by from night to night, and its weight.
    """

    confirm: float = 4.2
    suspect: float = 1.3
    acquit: float = 1.7
    batches: int = 4
    pooled: int = 3
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
    prior_nights: float = 4.0
    prior_percent: float = 1.5


RULES = Rules()
