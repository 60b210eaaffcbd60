"""Candidates, trials (timed launches of candidates), and `Measure`, the interface to whatever times them."""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
from collections.abc import Callable

from runtime.kernels.spec import Variant
from runtime.lowering.trials import TrialLaunch
from runtime.types import Precision
from tuner.build_ahead import NO_BUILD, BuildBeside

LocalSize = tuple[int, int, int]
DRIVERS_CHOICE: LocalSize = (0, 0, 0)

# Largest error that passes, as a share of the largest expected value. Sums of thousands of products keep five digits
# in float; half rounds inputs, weights and outputs (2^-11 each), or every partial sum as well.
TOLERANCE = {Precision.FP32: 2e-4, Precision.FP16_STORAGE: 1e-2, Precision.FP16: 5e-2}
_ERROR = 1.25 * 1.48  # standard error of a median, in deviations (the median one) over the root of their number
TINY_ERROR = 1e-6  # passes whatever is expected: an all-zero expectation has no scale


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A kernel variant and a local size to launch it with (zeros: the driver chooses)."""

    variant: Variant
    local_size: LocalSize

    def __str__(self) -> str:
        local = "x".join(str(size) for size in self.local_size) if any(self.local_size) else "driver"
        return f"{self.variant.name}@{local}"


class TrialStatus(enum.StrEnum):
    """How a trial ended. Only OK has a time that counts."""

    OK = "ok"
    WRONG = "wrong"  # the output departs from the expectation
    FAILED = "failed"  # the build or the launch answered with an error, or no time can be trusted
    HANG = "hang"  # ended by the watchdog
    CRASH = "crash"  # took the runtime's process with it
    LOST = "lost"  # the whole unit stopped answering, or the cable was pulled meanwhile


FATAL_STATUSES = frozenset({TrialStatus.HANG, TrialStatus.CRASH, TrialStatus.LOST})


@dataclasses.dataclass(frozen=True)
class Trial:
    """A timed launch of a candidate.

    Attributes:
        ns: time of each repetition.
        own_ns: time of the launch's default beside each repetition, in the same milliseconds; empty where it was not
            timed.
        device_s: device time that the trial took, a restart of the runtime included, and of builds what it waited for.
        build_s: what building its program took, be it ahead or now; 0 where that was built before.
        max_abs_error, max_abs_expected, nan_count: the output compared with the expectation; the error is None where
            nothing was compared.
        max_work_group_size: the kernel's own limit on this device; 0 where unknown.
        preferred_multiple: work-group size multiple that the device prefers for this kernel; 0 where unknown.
        reason: why the status is not OK.
        unit: the unit that measured it, where several share a search.
        beside: what it tells of programs that were built ahead; not kept in journals.
    """

    status: TrialStatus
    ns: tuple[float, ...] = ()
    device_s: float = 0.0
    build_s: float = 0.0
    max_abs_error: float | None = None
    max_abs_expected: float = 0.0
    nan_count: int = 0
    max_work_group_size: int = 0
    preferred_multiple: int = 0
    reason: str = ""
    unit: str = ""
    own_ns: tuple[float, ...] = ()
    beside: BuildBeside = NO_BUILD

    @property
    def typical_ns(self) -> float:
        """The time that stands for the trial; infinite without one.

        The median where each time is relative to the default's beside it, which errs to both sides; else the lower
        quartile, since what disturbs a launch only ever makes it slower.
        """
        if self.status != TrialStatus.OK:
            return math.inf
        return statistics.median(self.ns) if self.own_ns else sorted(self.ns)[(len(self.ns) - 1) // 4]

    @property
    def noise(self) -> float:
        """By what share `typical_ns` may be off where it is a median of ratios, else 0; a few outliers do not count."""
        logs = [math.log(ns / own_ns) for ns, own_ns in zip(self.ns, self.own_ns, strict=bool(self.own_ns))]
        middle = statistics.median(logs or [0.0])
        return _ERROR * statistics.median([abs(log - middle) for log in logs] or [0.0]) / math.sqrt(len(logs) or 1)

    @property
    def fastest_ns(self) -> float:
        """The fastest repetition; infinite without one."""
        return min(self.ns, default=math.inf) if self.status == TrialStatus.OK else math.inf

    def followed_by(self, later: Trial) -> Trial:
        """This good trial and a later one of the same candidate as one; the later one where that is not good."""
        if later.status != TrialStatus.OK:
            return later
        ns, own_ns = self.ns + later.ns, self.own_ns + later.own_ns
        return dataclasses.replace(self, ns=ns, own_ns=own_ns, device_s=self.device_s + later.device_s)

    def relative_to(self, default_ns: float) -> Trial:
        """This trial in the state in which the default takes so long: each time is its ratio to the default beside it.

        A trial that timed no default stays as it is.
        """
        if not self.own_ns:
            return self
        pairs = zip(self.ns, self.own_ns, strict=True)
        return dataclasses.replace(self, ns=tuple(default_ns * ns / own_ns for ns, own_ns in pairs))


Measure = Callable[[TrialLaunch, Candidate, int], Trial]
"""Times a candidate for a launch: (launch, candidate, repetitions). Raises JobError only when the unit is lost."""


def validated(trial: Trial, precision: Precision) -> Trial:
    """Checks output and times: a trial with a wrong output or an impossible time loses the status OK."""
    device_s = trial.device_s if math.isfinite(trial.device_s) and trial.device_s > 0 else 0.0
    trial = dataclasses.replace(trial, device_s=device_s)
    if trial.status != TrialStatus.OK:
        return trial
    status, reason = _checked_status(trial, precision)
    return dataclasses.replace(trial, status=status, reason=reason)


def _checked_status(trial: Trial, precision: Precision) -> tuple[TrialStatus, str]:
    if trial.max_abs_error is None:
        return TrialStatus.FAILED, "the output was not compared with an expectation"
    if trial.nan_count or not math.isfinite(trial.max_abs_error):
        return TrialStatus.WRONG, f"{trial.nan_count} NaN in the output"
    allowed = TOLERANCE[precision] * trial.max_abs_expected + TINY_ERROR
    if not trial.max_abs_error <= allowed:
        return TrialStatus.WRONG, f"error {trial.max_abs_error:.3g}, allowed {allowed:.3g}"
    if not trial.ns or not all(math.isfinite(ns) and ns > 0 for ns in (*trial.ns, *trial.own_ns)):
        return TrialStatus.FAILED, "a time that is not a positive number"
    if trial.own_ns and len(trial.own_ns) != len(trial.ns):
        return TrialStatus.FAILED, f"{len(trial.own_ns)} times of the default beside {len(trial.ns)}"
    return TrialStatus.OK, ""
