"""The decision's thresholds, each with its reason. docs/measurement.md gives the figures that they lead to."""

import dataclasses
from collections.abc import Mapping

from farm.rows.series import Metric


@dataclasses.dataclass(frozen=True)
class Rules:
    """Thresholds of the decision. Scores are normal quantiles: with few nights, Student's t at the same odds.

    Attributes:
        confirm: least score of a change. Without a change one test in 70,000 exceeds it; but a night tests five onsets,
            each up to 17 times as measurements come in.
        confirm_drifting: the same for a unit that drifts, since its drift is never known well.
        leave_one_out_drifting: least leave-one-out score of a unit that may be hot unnoticed, so that further nights
            confirm the change by themselves. Chance confirms one such night in some 700.
        joint_with_twin: least joint score of a unit and its twin for the same onset.
        each_with_twin: least score of each of the two, so that one hot unit does not decide for both.
        leave_one_out: least leave-one-out score of a unit that does not get hot unnoticed, or has a twin's evidence; it
            only proves that no single night makes the change.
        precedent: a series that has moved by this share of a change before, without one that lasted alone, may do so
            again: history does not confirm it. Half: what a night that was odd once may be the next time.
        young_nights: until a series has so many, nothing confirms a single night but a twin: odd nights are rare.
        provisional: least score of an unconfirmed change that is reported as provisional.
        suspect: least score that asks for more measurements. Low: a change of 5 % at 3 % noise must seldom be missed.
        drop_suspicion: least score after further measurements; below it the suspicion is dropped.
        worth_measuring: more is measured only if the change may be this many times `smallest_ratio`, in logarithms.
        most_batches: how many times half of a night's measurements may be made again: 5 % at 3 % noise needs that.
        onset_nights: how many nights ago a change may have begun, tonight counted. What is older is history.
        window_nights: most nights of a baseline: the error of its level is an eighth of a night's.
        least_nights: fewest nights of a history to judge by.
        smallest_ratio: smallest change of a metric that is worth reporting. Clocks and files make starts noisier.
        smallest_of_figures: the same of what users' programs tell.
        prior_percent, prior_factor: prior of the variation from night to night beyond that of the measurements: mostly
            within this factor of this percentage.
        drift_percent: least variation from night to night of a unit that gets hot; its room alone varies that much.
    """

    confirm: float = 4.35
    confirm_drifting: float = 4.8
    leave_one_out_drifting: float = 3.2
    joint_with_twin: float = 4.6
    each_with_twin: float = 2.0
    leave_one_out: float = 1.5
    precedent: float = 0.5
    young_nights: int = 37
    provisional: float = 3.0
    suspect: float = 0.8
    drop_suspicion: float = 0.9
    worth_measuring: float = 2.0
    most_batches: int = 16
    onset_nights: tuple[int, ...] = (1, 2, 3, 5, 8)
    window_nights: int = 60
    least_nights: int = 4
    smallest_ratio: Mapping[Metric, float] = dataclasses.field(
        hash=False,
        default_factory=lambda: {
            Metric.LATENCY: 1.02,
            Metric.INIT: 1.10,
            Metric.FIRST: 1.10,
            Metric.TUNED_RATIO: 1.03,
        },
    )
    smallest_of_figures: float = 1.03
    prior_percent: float = 1.0
    prior_factor: float = 3.0
    drift_percent: float = 1.0

    def smallest(self, metric: Metric) -> float:
        """The smallest ratio of a metric that is told."""
        return self.smallest_ratio.get(metric, self.smallest_of_figures)


RULES = Rules()
