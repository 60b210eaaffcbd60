"""The verdict on a launch: the candidate to use, its times, and the reason."""

import dataclasses
import math
from collections.abc import Sequence

from runtime.lowering.trials import TrialLaunch
from runtime.statistics.ratios import Ratio, true_discoveries
from tuner.space import default_candidate
from tuner.trial import Candidate

FALSE_DISCOVERY_RATE = 0.05  # of the launches that win


@dataclasses.dataclass(frozen=True)
class LaunchVerdict:
    """The search's decision on one launch.

    Attributes:
        chosen: the candidate to use; the default unless another one won.
        default_ns, tuned_ns: median times of the default and of the chosen one; NaN where not measured.
        reason: why it was chosen, for people.
        ratio: the best challenger's time over the default's, None where there was no full re-test.
        chance: how likely a launch that gains nothing would be found to gain as much; 1 where nothing won.
        runs: whether the chosen candidate is known to give a right result.
    """

    launch: TrialLaunch
    chosen: Candidate
    default_ns: float
    tuned_ns: float
    reason: str
    ratio: Ratio | None = None
    runs: bool = True
    chance: float = 1.0

    @property
    def won(self) -> bool:
        """Whether the verdict chose a candidate other than the default."""
        return self.chosen != default_candidate(self.launch)


def default_kept(launch: TrialLaunch, default_ns: float, why: str, ratio: Ratio | None = None) -> LaunchVerdict:
    """The verdict that keeps the default; `default_ns` may be unknown (NaN or infinite)."""
    known_ns = default_ns if math.isfinite(default_ns) else math.nan
    return LaunchVerdict(launch, default_candidate(launch), known_ns, known_ns, f"default kept: {why}", ratio)


def nothing_runs(launch: TrialLaunch) -> LaunchVerdict:
    """The verdict where neither the default nor another candidate gave a right result."""
    reason = "neither the default nor another candidate gave a right result"
    return LaunchVerdict(launch, default_candidate(launch), math.nan, math.nan, reason, runs=False)


def without_false_discoveries(verdicts: Sequence[LaunchVerdict]) -> tuple[LaunchVerdict, ...]:
    """Keeps the default where one of so many launches would win by chance.

    Launches without a ratio were not re-tested, so that none of them can win by chance; one whose default gives no
    right result has no chance that could be named, and is left alone.
    """
    retested = [verdict for verdict in verdicts if verdict.ratio]
    believed = true_discoveries([verdict.chance for verdict in retested], FALSE_DISCOVERY_RATE)
    doubtful = {verdict.launch.key for verdict, is_believed in zip(retested, believed, strict=True) if not is_believed}
    return tuple(
        _by_chance(verdict, len(retested)) if verdict.won and verdict.launch.key in doubtful else verdict
        for verdict in verdicts
    )


def _by_chance(verdict: LaunchVerdict, count: int) -> LaunchVerdict:
    why = f"{verdict.reason}, which one of {count} re-tested launches may do by chance"
    return default_kept(verdict.launch, verdict.default_ns, why, verdict.ratio)


def confirmed(first: LaunchVerdict, second: LaunchVerdict, unit: str) -> LaunchVerdict:
    """The first unit's verdict for another candidate, if a second unit agrees; else the default is kept."""
    if second.won:
        return dataclasses.replace(first, reason=f"{first.reason}; confirmed on {unit}")
    return default_kept(
        first.launch, first.default_ns, f"{first.reason}, but not on {unit}: {second.reason}", first.ratio
    )
