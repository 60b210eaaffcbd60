"""Wall time of a model's rounds, summed up."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from farm.rows.record import Record


class Latency(Record):
    """Wall time of the measured rounds in milliseconds; `samples` are the rounds in order, the first run apart."""

    median: float
    p90: float
    min: float
    max: float
    std: float
    samples: tuple[float, ...]

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Latency:
        """Summary of at least one sample."""
        ordered = sorted(samples_ms)
        return cls(
            median=statistics.median(ordered),
            p90=ordered[math.ceil(0.9 * len(ordered)) - 1],
            min=ordered[0],
            max=ordered[-1],
            std=statistics.pstdev(ordered),
            samples=tuple(samples_ms),
        )
