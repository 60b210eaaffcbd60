"""One scale for several units: two phones of a model differ by some percent, and each drifts as it warms.

A reference launch is timed on every unit now and then, and a unit's times are multiplied by what the reference takes
on the first unit over what it takes on this one, so that candidates timed on different units can be compared.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch
from tuner.space import default_candidate
from tuner.trial import Candidate, Measure, Trial

REFERENCE_REPS = 10
REFRESH_S = 20.0  # device time from one look at the reference to the next


@dataclasses.dataclass
class Standard:
    """The reference, and what it takes on the first unit that timed it, in ns; NaN until then."""

    launch: TrialLaunch
    ns: float = math.nan

    @classmethod
    def of(cls, launches: Sequence[TrialLaunch]) -> Standard:
        """The launch with the most work items by default: long enough to be timed well."""
        return cls(max(launches, key=lambda each: math.prod(each.work_items(default_candidate(each).variant))))


class Normalised:
    """A unit's `measure` on the common scale. A reference that fails leaves the scale as it was.

    Attributes:
        scale: what times are multiplied by.
    """

    def __init__(self, measure: Measure, standard: Standard) -> None:
        self.scale = 1.0
        self._measure, self._standard = measure, standard
        self._since_s = math.inf

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """See tuner.trial.Measure; the device time of a look at the reference counts in the trial's."""
        extra_s = self._look() if self._since_s >= REFRESH_S else 0.0
        trial = self._measure(launch, candidate, reps)
        self._since_s += trial.device_s
        scaled = tuple(ns * self.scale for ns in trial.ns)
        return dataclasses.replace(trial, ns=scaled, device_s=trial.device_s + extra_s)

    def _look(self) -> float:
        """Times the reference; returns the device time that this took."""
        launch = self._standard.launch
        seen = self._measure(launch, default_candidate(launch), REFERENCE_REPS)
        self._since_s = 0.0
        if math.isfinite(seen.typical_ns) and seen.typical_ns > 0:
            if math.isnan(self._standard.ns):
                self._standard.ns = seen.typical_ns
            self.scale = self._standard.ns / seen.typical_ns
        return seen.device_s
