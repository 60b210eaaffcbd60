"""What the A/A controls say of the decision: how often it would cry for nothing."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ControlReport:
    """What the A/A controls say of the farm's own noise.

    Attributes:
        comparisons: how many times the two labels of one thing were compared, over all nights.
        alarms: how many of these the decision would have called a change.
        expected_alarms_per_week: false alarms to expect of all series together; `low` and `high` its 95 % interval.
    """

    comparisons: int
    alarms: int
    expected_alarms_per_week: float
    low: float
    high: float
