"""Measures how far an output departs from the expected one, and decides whether that is too far. Pure.

All sums run in double precision. Elements that are the same infinity, or NaN, in both arrays agree and are left out of
the sums; any other of them makes the comparison fail. NaN of the expected array alone is no fault of the other one.
"""

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from farm.rows.status import Status
from runtime.graph import Array
from runtime.types import Precision

SQNR_LIMIT_DB = 300.0  # stands for "no noise at all": double precision resolves no more, and JSON has no infinity
SUM_MARGIN = 16
MOVEMENT_MARGIN = 9  # power of the noise of a plan over that of one rounding of its input
RELATIVE_FLOOR = 1e-3  # elements below this share of the largest drown in rounding and have no relative error


@dataclasses.dataclass(frozen=True)
class Metrics:
    """Comparison of one tensor.

    Attributes:
        cosine: cosine similarity, 1 for equal directions and for two zero vectors; 0 where one is zero or not finite.
        sqnr_db: signal to quantization noise ratio, 10 log10(sum e^2 / sum (e - a)^2), limited to +-300 dB.
        pixel_accuracy: share of pixels whose largest channel is the expected one.
        max_abs_error: largest |a - e|; infinite where an infinity or a NaN stands alone.
        max_rel_error: largest |a - e| / |e| among elements of at least a thousandth of the largest |e|.
        scale: largest finite |e|.
        nan_count, inf_count: NaNs and infinities in the actual output that were not expected.
        expected_nan_count: NaNs in the expected output alone, which then is no reference.
    """

    cosine: float
    sqnr_db: float
    pixel_accuracy: float
    max_abs_error: float
    max_rel_error: float
    scale: float
    nan_count: int
    inf_count: int
    expected_nan_count: int

    @property
    def scaled_error(self) -> float:
        """Largest error as a share of the largest expected value."""
        return self.max_abs_error / self.scale if self.scale else (math.inf if self.max_abs_error else 0.0)


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """What still passes: at least this cosine and SQNR, at most this error as a share of the largest value."""

    cosine: float
    sqnr_db: float
    scaled_error: float


@dataclasses.dataclass(frozen=True)
class OutputVerdict:
    """Status `ok`, `wrong_result` or `no_reference`, its reason, and the metrics where the shapes agree.

    `ok` has a reason too where it shows nothing: the expected output is the same everywhere.
    """

    status: Status
    reason: str
    metrics: Metrics | None


# In half: a little below the least that single inputs gave on a driver with half arithmetic (docs/results.md).
DEFAULT_THRESHOLDS = {
    ("cpu", Precision.FP32): Thresholds(0.9999, 60.0, 1e-3),
    ("gpu", Precision.FP32): Thresholds(0.9999, 50.0, 2e-3),
    **{(each, Precision.FP16_STORAGE): Thresholds(0.994, 18.0, 0.15) for each in ("cpu", "gpu")},
    **{(each, Precision.FP16): Thresholds(0.985, 15.0, 0.2) for each in ("cpu", "gpu")},
}


def default_thresholds(runtime: str, precision: Precision) -> Thresholds:
    """Thresholds of a runtime (`cpu`, `gpu`) at a precision."""
    return DEFAULT_THRESHOLDS[runtime, precision]


# Of what Softmax and its like read. In half: a quarter of the least SQNR that single inputs gave, as power.
INNER_THRESHOLDS = {
    **DEFAULT_THRESHOLDS,
    **{(each, Precision.FP16_STORAGE): Thresholds(0.997, 22.0, 0.1) for each in ("cpu", "gpu")},
    **{(each, Precision.FP16): Thresholds(0.994, 19.0, 0.14) for each in ("cpu", "gpu")},
}


def loosest(*thresholds: Thresholds) -> Thresholds:
    """What passes where one of several lets it pass."""
    return Thresholds(
        min(each.cosine for each in thresholds),
        min(each.sqnr_db for each in thresholds),
        max(each.scaled_error for each in thresholds),
    )


def for_sums(thresholds: Thresholds, terms: int) -> Thresholds:
    """Thresholds for outputs that are sums of so many terms, or of sums of them.

    Each addition rounds by up to u = 2^-24 of the sum so far, independently: the errors of n terms have n u^2 of its
    power. `SUM_MARGIN` times that, for terms that round alike and for the reference's own errors, is let pass, where it
    is more than the thresholds allow anyway: from some 18 million terms on in float32 on a CPU.
    """
    share = SUM_MARGIN * terms * 2.0**-48
    of_sums = Thresholds(1.0 / math.sqrt(1.0 + share), _decibel(1.0, share), math.sqrt(share))
    return loosest(thresholds, of_sums)


def for_movement(thresholds: Thresholds, movement: Metrics | None) -> Thresholds:
    """Thresholds for outputs whose reference itself moves so far by rounding: `MOVEMENT_MARGIN` times its power."""
    if movement is None or movement.nan_count or movement.inf_count or movement.expected_nan_count:
        return thresholds
    share = MOVEMENT_MARGIN * 10.0 ** (-movement.sqnr_db / 10.0)
    return Thresholds(
        min(thresholds.cosine, 1.0 / math.sqrt(1.0 + share)),
        min(thresholds.sqnr_db, _decibel(1.0, share)),
        max(thresholds.scaled_error, math.sqrt(MOVEMENT_MARGIN) * movement.scaled_error),
    )


def thresholds_of_similarity(similarity: float) -> Thresholds:
    """Thresholds where the user gives a cosine similarity only.

    Noise that turns a vector to the cosine c has the power 1/c^2 - 1 of the signal. The same noise bounds the SQNR, so
    that a wrong scale, which the cosine cannot see, fails too; the largest single error is then left free.
    """
    return Thresholds(similarity, _decibel(1.0, noise_of_cosine(similarity)), math.inf)


def noise_excess(metrics: Metrics, thresholds: Thresholds) -> float:
    """How many times the noise power that thresholds allow an output has: at most 1 passes, infinite is no number.

    With a = e + n, the share s = |n|^2 / |e|^2 is what the SQNR is made of, 10^(-SQNR / 10). Noise that does not hang
    on the signal is orthogonal to it, so that cos(e, a) = |e| / |a| = 1 / sqrt(1 + s): a cosine c allows the share
    1 / c^2 - 1, for small noise 2 (1 - c). All errors grow with the root of the power, the largest one too: a bound on
    it is one on the power by its square. The strictest of the three counts.
    """
    if metrics.nan_count or metrics.inf_count or metrics.expected_nan_count:
        return math.inf
    return max(
        _times(10.0 ** (-metrics.sqnr_db / 10.0), 10.0 ** (-thresholds.sqnr_db / 10.0)),
        _times(noise_of_cosine(metrics.cosine), noise_of_cosine(thresholds.cosine)),
        _times(metrics.scaled_error**2, thresholds.scaled_error**2),
    )


def noise_of_cosine(cosine: float) -> float:
    """The power, as a share of the signal's, of the noise that turns a vector to a cosine."""
    return 1.0 / cosine**2 - 1.0 if cosine > 0 else math.inf


def _times(noise: float, allowed: float) -> float:
    """How often an allowed noise fits into one."""
    if noise == 0.0 or math.isinf(allowed):
        return 0.0
    return noise / allowed if allowed else math.inf


def compare(expected: Array, actual: Array, channel_axis: int = 1) -> Metrics:
    """Metrics of two arrays of one shape; channels lie along `channel_axis` (the last axis where there are fewer)."""
    if expected.shape != actual.shape:
        raise ValueError(f"shapes {expected.shape} and {actual.shape} differ")
    wide_expected, wide_actual = expected.astype(np.float64), actual.astype(np.float64)
    same_infinity = np.isinf(wide_expected) & (wide_expected == wide_actual)
    counted = ~(same_infinity | (np.isnan(wide_expected) & np.isnan(wide_actual)))
    e, a = wide_expected[counted], wide_actual[counted]
    with np.errstate(all="ignore"):
        error = np.abs(a - e)
        scale = _largest(np.abs(e[np.isfinite(e)]))
        return Metrics(
            cosine=_cosine(e, a),
            sqnr_db=_decibel(float(np.sum(e * e)), float(np.sum(error * error))),
            pixel_accuracy=_pixel_accuracy(wide_expected, wide_actual, channel_axis),
            max_abs_error=_largest(error),
            max_rel_error=_max_rel_error(e, error, scale),
            scale=scale,
            nan_count=int(np.isnan(a).sum()),
            inf_count=int(np.isinf(a).sum()),
            expected_nan_count=int(np.isnan(e).sum()),
        )


def judge_output(expected: Array, actual: Array, thresholds: Thresholds, channel_axis: int = 1) -> OutputVerdict:
    """Decides whether `actual` is close enough to `expected`."""
    if expected.shape != actual.shape:
        return OutputVerdict(Status.WRONG_RESULT, f"shape {actual.shape}, expected {expected.shape}", None)
    metrics = compare(expected, actual, channel_axis)
    if metrics.expected_nan_count and not (metrics.nan_count or metrics.inf_count):
        return OutputVerdict(Status.NO_REFERENCE, f"the reference holds {metrics.expected_nan_count} NaN", metrics)
    reason = "; ".join(_objections(metrics, thresholds))
    return OutputVerdict(Status.WRONG_RESULT if reason else Status.OK, reason or _emptiness(expected), metrics)


def _emptiness(expected: Array) -> str:
    """Why an output that agrees shows nothing; empty where it shows something."""
    if expected.size and np.isnan(expected).all():
        return "the reference holds no number, which is no evidence"
    if expected.size < 2 or not (expected == expected.flat[0]).all():
        return ""
    return f"the reference is {expected.flat[0]} everywhere, which is no evidence"


def worst(metrics: Iterable[Metrics]) -> Metrics | None:
    """The worst of every figure over several tensors; None over none."""
    tensors = list(metrics)
    if not tensors:
        return None
    return Metrics(
        cosine=min(row.cosine for row in tensors),
        sqnr_db=min(row.sqnr_db for row in tensors),
        pixel_accuracy=min(row.pixel_accuracy for row in tensors),
        max_abs_error=max(row.max_abs_error for row in tensors),
        max_rel_error=max(row.max_rel_error for row in tensors),
        scale=max(row.scale for row in tensors),
        nan_count=sum(row.nan_count for row in tensors),
        inf_count=sum(row.inf_count for row in tensors),
        expected_nan_count=sum(row.expected_nan_count for row in tensors),
    )


def _objections(metrics: Metrics, thresholds: Thresholds) -> Iterable[str]:
    if metrics.nan_count or metrics.inf_count:
        yield f"{metrics.nan_count} NaN and {metrics.inf_count} unexpected infinities in the output"
    else:
        yield from _departures(metrics, thresholds)


def _departures(metrics: Metrics, thresholds: Thresholds) -> Iterable[str]:
    if metrics.cosine < thresholds.cosine:
        yield f"cosine {metrics.cosine:.6f} < {thresholds.cosine:g}"
    if metrics.sqnr_db < thresholds.sqnr_db:
        yield f"SQNR {metrics.sqnr_db:.1f} dB < {thresholds.sqnr_db:.1f} dB"
    if metrics.scaled_error > thresholds.scaled_error:
        yield f"error {metrics.max_abs_error:.3g} is {metrics.scaled_error:.2%} of the largest value"


def _cosine(e: Array, a: Array) -> float:
    largest = _largest(np.abs(e)), _largest(np.abs(a))
    if 0.0 in largest or math.inf in largest:
        return float(largest == (0.0, 0.0))
    e, a = e / largest[0], a / largest[1]  # so that neither squares nor norms overflow or vanish
    return float(min(1.0, np.dot(e, a) / math.sqrt(np.dot(e, e) * np.dot(a, a))))


def _decibel(signal: float, noise: float) -> float:
    if noise == 0.0:
        return SQNR_LIMIT_DB
    if signal == 0.0 or not (math.isfinite(signal) and math.isfinite(noise)):
        return -SQNR_LIMIT_DB
    return max(-SQNR_LIMIT_DB, min(SQNR_LIMIT_DB, 10 * math.log10(signal / noise)))


def _pixel_accuracy(expected: Array, actual: Array, channel_axis: int) -> float:
    """An argmax agrees where the expected array has its maximum there too, so that ties do not count as errors."""
    if expected.ndim == 0 or expected.size == 0:
        return 1.0
    axis = min(channel_axis, expected.ndim - 1)
    chosen = np.expand_dims(actual.argmax(axis), axis)
    agree = np.take_along_axis(expected, chosen, axis) == expected.max(axis, keepdims=True)
    return float(np.mean(agree & ~np.isnan(actual).any(axis, keepdims=True)))


def _max_rel_error(e: Array, error: Array, scale: float) -> float:
    magnitude = np.abs(e)
    counted = magnitude >= RELATIVE_FLOOR * scale
    counted &= magnitude > 0
    return _largest(error[counted] / magnitude[counted])


def _largest(values: Array) -> float:
    """Largest element; 0 of none; infinite where one is not a number."""
    if values.size == 0:
        return 0.0
    largest = float(values.max())
    return math.inf if math.isnan(largest) else largest
