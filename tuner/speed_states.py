"""Recognises a unit that has two speeds: times that lie in two groups, each for a while.

A core whose other hyperthread serves a stranger, or a clock that a governor or a power limit lowers, makes the same
launch take 1.2 to 2 times as long for some milliseconds to minutes, and no counter of the system tells. A median over
both states says how often each was met, not how fast the launch is.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

LEAST_SAMPLES = 30
_LEAST_SHARE = 0.1  # of the samples, in each state; a few slow ones are outliers
_LEAST_RATIO = 1.1  # of the slow state's time to the fast one's
_LEAST_GAP = 5.0  # between the states' medians, in standard deviations of a state
_LEAST_LAG = 3.0  # how many standard deviations less often than by chance one state follows the other
_PER_DEVIATION = 1.4826  # a standard deviation over the median absolute deviation, of a normal distribution

Logs = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class SpeedStates:
    """Two states of a unit: how much longer the slow one takes, and its share of the samples."""

    ratio: float
    slow_share: float

    def __str__(self) -> str:
        return f"two states: {self.ratio:.2f} times as slow in {100 * self.slow_share:.0f} % of the samples"


def speed_states(times: Sequence[float]) -> SpeedStates | None:
    """The two states that times in the order of measuring come from; None where they show but one.

    Two groups must be far apart for their widths, neither be rare, and each last: a sample is mostly followed by one of
    its own group. Noise without a second state hardly ever looks so, heavy tails included.
    """
    if len(times) < LEAST_SAMPLES or not all(math.isfinite(time) and time > 0 for time in times):
        return None
    logs = np.log(np.asarray(times, np.float64))
    is_slow = logs > _border(logs)
    share = float(is_slow.mean())
    if not _LEAST_SHARE <= share <= 1.0 - _LEAST_SHARE:
        return None
    fast, slow = logs[~is_slow], logs[is_slow]
    gap = float(np.median(slow) - np.median(fast))
    if gap < max(math.log(_LEAST_RATIO), _LEAST_GAP * max(_width(fast), _width(slow))) or not _lasts(is_slow):
        return None
    return SpeedStates(math.exp(gap), share)


def _border(logs: Logs) -> float:
    """The value that parts the samples into two groups of the least variance (N. Otsu, 1979)."""
    ordered = np.sort(logs)
    count = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)[:-1]
    between = (sums / count - (ordered.sum() - sums) / (len(ordered) - count)) ** 2 * count * (len(ordered) - count)
    best = int(np.argmax(between))
    return float(ordered[best : best + 2].mean())


def _width(logs: Logs) -> float:
    """Standard deviation of a group without its outliers."""
    return _PER_DEVIATION * float(np.median(np.abs(logs - np.median(logs))))


def _lasts(is_slow: npt.NDArray[np.bool_]) -> bool:
    """Whether states change less often than by chance (A. Wald and J. Wolfowitz, 1940)."""
    count, slow = len(is_slow), int(is_slow.sum())
    pairs = 2.0 * slow * (count - slow)
    expected = pairs / count + 1.0
    variance = pairs * (pairs - count) / (count**2 * (count - 1.0))
    runs = 1 + int((is_slow[1:] != is_slow[:-1]).sum())
    return expected - runs >= _LEAST_LAG * math.sqrt(variance)
