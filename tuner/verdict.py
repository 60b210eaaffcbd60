"""The verdict on a launch: the candidate to use, its times, and the reason."""

from __future__ import annotations

import dataclasses
import math

from runtime.lowering.trials import TrialLaunch
from tuner.space import default_candidate
from tuner.statistics import Ratio
from tuner.trial import Candidate


@dataclasses.dataclass(frozen=True)
class LaunchVerdict:
    """The search's decision on one launch.

    Attributes:
        chosen: the candidate to use; the default unless another one won.
        default_ns, tuned_ns: median times of the default and of the chosen one; NaN where not measured.
        reason: why it was chosen, for people.
        ratio: the best challenger's time over the default's, None where there was no full re-test.
        runs: whether the chosen candidate is known to give a right result.
    """

    launch: TrialLaunch
    chosen: Candidate
    default_ns: float
    tuned_ns: float
    reason: str
    ratio: Ratio | None = None
    runs: bool = True

    @property
    def won(self) -> bool:
        """Whether another candidate than the default was chosen."""
        return self.chosen != default_candidate(self.launch)


def default_kept(launch: TrialLaunch, default_ns: float, why: str, ratio: Ratio | None = None) -> LaunchVerdict:
    """The verdict that keeps the default; `default_ns` may be unknown (NaN or infinite)."""
    known_ns = default_ns if math.isfinite(default_ns) else math.nan
    return LaunchVerdict(launch, default_candidate(launch), known_ns, known_ns, f"default kept: {why}", ratio)


def nothing_runs(launch: TrialLaunch) -> LaunchVerdict:
    """The verdict where neither the default nor another candidate gave a right result."""
    reason = "neither the default nor another candidate gave a right result"
    return LaunchVerdict(launch, default_candidate(launch), math.nan, math.nan, reason, runs=False)


def confirmed(first: LaunchVerdict, second: LaunchVerdict, unit: str) -> LaunchVerdict:
    """The first unit's verdict for another candidate, if a second unit agrees; else the default is kept."""
    if second.won:
        return dataclasses.replace(first, reason=f"{first.reason}; confirmed on {unit}")
    return default_kept(
        first.launch, first.default_ns, f"{first.reason}, but not on {unit}: {second.reason}", first.ratio
    )
