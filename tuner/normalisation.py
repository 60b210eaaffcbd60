"""Normalises times of several units: two phones of a model differ by some percent, and each drifts as it warms.

Every unit times a reference launch now and then. A unit's times are multiplied by (reference time on the first unit) /
(reference time on this unit), so that candidates timed on different units can be compared.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch
from tuner.space import default_candidate
from tuner.trial import Candidate, Measure, Trial

REFERENCE_REPS = 10
REFRESH_S = 20.0  # device time from one timing of the reference to the next


@dataclasses.dataclass
class ReferenceLaunch:
    """The reference launch, and its time on the first unit that ran it, in ns (NaN until then)."""

    launch: TrialLaunch
    ns: float = math.nan

    @classmethod
    def of(cls, launches: Sequence[TrialLaunch]) -> ReferenceLaunch:
        """Chooses the launch with the most work items by default: it is long enough to be timed well."""
        return cls(max(launches, key=lambda launch: math.prod(launch.work_items(default_candidate(launch).variant))))


class NormalisedMeasure:
    """Wraps a unit's `measure` and normalises its times. A reference trial that fails leaves the scale as it was.

    Attributes:
        scale: the factor that this unit's times are multiplied by.
    """

    def __init__(self, measure: Measure, reference: ReferenceLaunch) -> None:
        self.scale = 1.0
        self._measure, self._reference = measure, reference
        self._since_s = math.inf

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """See tuner.trial.Measure; the trial's device time includes that of timing the reference."""
        extra_s = self._time_reference() if self._since_s >= REFRESH_S else 0.0
        trial = self._measure(launch, candidate, reps)
        self._since_s += trial.device_s
        ns, own_ns = (tuple(ns * self.scale for ns in times_ns) for times_ns in (trial.ns, trial.own_ns))
        return dataclasses.replace(trial, ns=ns, own_ns=own_ns, device_s=trial.device_s + extra_s)

    def _time_reference(self) -> float:
        """Times the reference and updates the scale; returns the device time that this took, in seconds."""
        launch = self._reference.launch
        trial = self._measure(launch, default_candidate(launch), REFERENCE_REPS)
        self._since_s = 0.0
        if math.isfinite(trial.typical_ns) and trial.typical_ns > 0:
            if math.isnan(self._reference.ns):
                self._reference.ns = trial.typical_ns
            self.scale = self._reference.ns / trial.typical_ns
        return trial.device_s
