"""Ratios of times with confidence intervals, which say whether one launch, or one whole model, is faster than another.

Sources: B. Efron, "Bootstrap methods: another look at the jackknife", 1979; rounds are resampled as clusters.
T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", 2013: what varies between processes must be
repeated as processes, and no number of rounds within one stands for it.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.statistics import signed_ranks

MINIMUM_ROUNDS = 5  # with fewer, an interval says nothing
_RESAMPLES = 2000

Rounds = Sequence[Sequence[float]]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A candidate's time over the default's, with its confidence interval. Below 1 is faster."""

    value: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        """The whole interval says that the candidate is faster."""
        return self.high < 1.0

    @property
    def gain_percent(self) -> float:
        """Time saved, in percent of the default's."""
        return 100.0 * (1.0 - self.value)

    @property
    def gain_interval(self) -> tuple[float, float]:
        """Confidence interval of `gain_percent`."""
        return (100.0 * (1.0 - self.high), 100.0 * (1.0 - self.low))


def ratio_of_medians(candidate: Rounds, default: Rounds, confidence: float = 0.99, seed: int = 0) -> Ratio | None:
    """Ratio of the medians of interleaved rounds; None when there are fewer than MINIMUM_ROUNDS.

    The bootstrap resamples rounds, not samples, and the same rounds for both: samples of one round share its
    disturbances. Rounds are cut to the shortest one's length.
    """
    count = min(len(candidate), len(default))
    if count < MINIMUM_ROUNDS:
        return None
    numerator, denominator = _matrix(candidate[:count]), _matrix(default[:count])
    chosen = np.random.default_rng(seed).integers(0, count, (_RESAMPLES, count))
    ratios = _medians(numerator[chosen]) / _medians(denominator[chosen])
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(ratios, [tail, 100.0 - tail])
    value = np.median(numerator) / np.median(denominator)
    return Ratio(float(value), float(low), float(high))


def ratio_of_pairs(candidate: Sequence[float], default: Sequence[float], confidence: float = 0.95) -> Ratio | None:
    """Ratio of times that were measured in pairs, such as two processes that ran in turns; None under MINIMUM_ROUNDS.

    Each pair is one replicate, so that what a process got by chance counts as noise. Estimate and interval are those of
    signed ranks of the log ratios: exact for any symmetric noise, however heavy its tails.
    """
    count = min(len(candidate), len(default))
    if count < MINIMUM_ROUNDS:
        return None
    found = signed_ranks.paired_ratio(default[:count], candidate[:count], confidence)
    return Ratio(found.value, found.low, found.high)


def chance_of_pairs(candidate: Sequence[float], default: Sequence[float]) -> float:
    """How likely pairs of equal times look at least so much in favour of the candidate (Student's test of the logs)."""
    from scipy import special  # takes long to import, for most commands in vain

    logs = np.log(np.asarray(candidate, float) / np.asarray(default, float))
    error = logs.std(ddof=1) / np.sqrt(len(logs))
    if error == 0.0:
        return 0.0 if logs.mean() < 0.0 else 1.0
    return float(special.stdtr(len(logs) - 1, logs.mean() / error))


def chance_of_gain(ratios: Sequence[float], left: int, value: float, high: float, confidence: float = 0.95) -> float:
    """How likely the ratios of pairs and `left` further ones like them will average `value` or less, and surely `high`.

    Surely: their interval ends below it. The logs count as normally distributed, their mean and spread as unknown.
    """
    from scipy import special  # takes long to import, for most commands in vain

    logs, known = np.log(np.asarray(ratios, float)), len(ratios)
    every, spread = known + left, logs.std(ddof=1)
    margin = special.stdtrit(every - 1, (1.0 + confidence) / 2.0) * spread / np.sqrt(every)
    above = logs.mean() - min(np.log(value), np.log(high) - margin)
    error = spread * np.sqrt(left / (known * every))
    return float(special.stdtr(known - 1, -above / error)) if error > 0.0 else float(above <= 0.0)


def true_discoveries(chances: Sequence[float], false_rate: float) -> list[bool]:
    """Which of many findings to believe so that of those at most `false_rate` are false on average.

    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", 1995.
    """
    ordered = sorted(chances)
    believed = [chance for rank, chance in enumerate(ordered, 1) if chance <= false_rate * rank / len(ordered)]
    return [bool(believed) and chance <= believed[-1] for chance in chances]


def _matrix(rounds: Rounds) -> npt.NDArray[np.float64]:
    length = min(len(samples) for samples in rounds)
    return np.array([list(samples)[:length] for samples in rounds], np.float64)


def _medians(resampled: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.median(resampled.reshape(len(resampled), -1), axis=1))
