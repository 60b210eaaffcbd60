"""The false-alarm rate that the A/A controls measure."""

from __future__ import annotations

import dataclasses

ENOUGH_ALARMS = 10  # the interval then spans half to twice the estimate
FEW_ALARMS = 0.01  # a week and series: one in a hundred series


@dataclasses.dataclass(frozen=True)
class ControlReport:
    """How often the decision reports a change where there is none, measured with the A/A controls.

    Attributes:
        comparisons: how many comparisons of the two labels of one thing were made, over all nights.
        alarms: in how many of them the decision reported a change.
        expected_alarms_per_week: false alarms to expect of all series together; `low` and `high` its 95 % interval.
        series: how many series were compared.
    """

    comparisons: int
    alarms: int
    expected_alarms_per_week: float
    low: float
    high: float
    series: int

    @property
    def suffices(self) -> bool:
        """Whether the estimate says something: it is known to be below one a week, or it rests on enough alarms.

        One a week of each hundred series where they are more: of thousands only so many comparisons are made.
        """
        return self.high <= max(1.0, FEW_ALARMS * self.series) or self.alarms >= ENOUGH_ALARMS
