"""The judgement of one series on one night: a verdict and the figures that it rests on."""

import dataclasses
import enum
import math

SOFTWARE, NOT_SOFTWARE = "the software", "not the software"
NO_FACT = "no fact of the unit tells why (heat, clocks, hardware)"


class Verdict(enum.StrEnum):
    """The verdict on a series tonight."""

    UNCHANGED = "unchanged"
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    PROVISIONAL_REGRESSION = "provisional_regression"  # seen, not confirmed yet
    PROVISIONAL_IMPROVEMENT = "provisional_improvement"
    ENVIRONMENT_CHANGED = "environment_changed"  # the level moved, and the software of an earlier night moved with it
    NEW = "new"  # too few nights to judge by
    REPLACED = "replaced"  # another piece of hardware: the series begins anew
    SPOILED = "spoiled"  # the device state spoiled every measurement
    WRONG_RESULT = "wrong_result"
    FAILED = "failed"  # any other status but ok; the reason says which
    MISSING = "missing"  # measured the nights before, not this one

    @property
    def is_bad(self) -> bool:
        """Whether the verdict makes the night's exit status 1."""
        return self in (Verdict.REGRESSION, Verdict.WRONG_RESULT, Verdict.FAILED, Verdict.MISSING)


@dataclasses.dataclass(frozen=True)
class ChangePoint:
    """A level shift in a series' history: its first night, and the new level over the old with a 95 % interval.

    `commits`: of the last night before it and of its first night.
    """

    run: int
    time: str
    ratio: float
    low: float
    high: float
    commits: tuple[str, str] = ("", "")


@dataclasses.dataclass(frozen=True)
class Noise:
    """Standard deviations in percent: of measurements within a night, and from night to night beyond that."""

    within_percent: float
    between_percent: float


@dataclasses.dataclass(frozen=True)
class OnsetTest:
    """The test of one possible onset of a change: the nights since the onset against the baseline before it.

    Attributes:
        nights: how many nights there are since the onset, tonight included.
        baseline: logarithm of the level before the onset.
        change: change of the logarithm.
        error: standard error of the change.
        score: the change in standard errors, converted to a normal distribution.
        weakest: leave-one-out score: the score without the night that shows the change most; 0 for a single night.
    """

    nights: int
    baseline: float
    change: float
    error: float
    score: float
    weakest: float


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The verdict on a series, and what it rests on.

    Attributes:
        reason: one sentence for people.
        cause: who is to blame, where a duet told: `the software`, or `not the software`; else empty.
        facts: what else of the unit is different than before, where it is not the software.
        measured: how the reason begins, where it begins with the change that `ratio`, `low` and `high` give.
        value, baseline: tonight's figure and the one it is compared with; None where there is none.
        baseline_nights: how many nights the baseline is made of.
        ratio, low, high: tonight over baseline with its 95 % confidence interval (of differences for metrics that are
            not timed, where a ratio means nothing: then these are None and the reason names the difference).
        p_value: Mann-Whitney, two-sided, of tonight's measurements against those of the baseline's nights.
        effect: Cliff's delta, -1 to 1; positive: tonight's are larger.
        nights: how many nights, tonight's included, the change is seen in.
        more: how many further measurements of tonight would settle it; 0: it is settled.
        noise: what the series varies by when nothing changes.
        change_points: steps in its history, oldest first.
        looks: the test of each possible onset; they are the evidence that a twin gives.
    """

    verdict: Verdict
    reason: str
    value: float | None = None
    baseline: float | None = None
    baseline_nights: int = 0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    effect: float | None = None
    nights: int = 1
    more: int = 0
    noise: Noise | None = None
    change_points: tuple[ChangePoint, ...] = ()
    looks: tuple[OnsetTest, ...] = ()
    measured: str = ""
    cause: str = ""
    facts: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason without the change, for where that stands beside it."""
        return self.reason.removeprefix(self.measured).lstrip(",:; ") or self.reason

    @property
    def shared_reason(self) -> str:
        """The part of the reason that series with one cause have in common."""
        if self.cause == NOT_SOFTWARE:
            return f"{self.cause}: {'; '.join(self.facts) or NO_FACT}"
        return self.cause or self.why

    @property
    def difference(self) -> float | None:
        """Tonight's figure less the baseline; None where one of them is not known."""
        if self.value is None or self.baseline is None:
            return None
        difference = self.value - self.baseline
        return difference if math.isfinite(difference) else None

    @property
    def relative_change(self) -> float:
        """Tonight's figure over the baseline, less one; 0 where it is not known."""
        if self.ratio is not None:
            return self.ratio - 1 if math.isfinite(self.ratio) else 0.0
        return self.difference / abs(self.baseline) if self.difference and self.baseline else 0.0
