"""The false-alarm rate that the A/A controls measure."""

from __future__ import annotations

import dataclasses

ENOUGH_ALARMS = 10  # the interval then spans half to twice the estimate


@dataclasses.dataclass(frozen=True)
class ControlReport:
    """How often the decision reports a change where there is none, measured with the A/A controls.

    Attributes:
        comparisons: how many comparisons of the two labels of one thing were made, over all nights.
        alarms: in how many of them the decision reported a change.
        expected_alarms_per_week: false alarms to expect of all series together; `low` and `high` its 95 % interval.
    """

    comparisons: int
    alarms: int
    expected_alarms_per_week: float
    low: float
    high: float

    @property
    def suffices(self) -> bool:
        """Whether the estimate says something: it is known to be below one a week, or it rests on enough alarms."""
        return self.high <= 1.0 or self.alarms >= ENOUGH_ALARMS
