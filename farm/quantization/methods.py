"""Chooses the range that eight bits of a tensor stand for, from the histogram of its values."""

import contextlib
import io
from collections.abc import Callable, Mapping

import numpy as np

from farm.quantization.histogram import BINS, Histogram

Range = tuple[float, float]
Method = Callable[[Histogram], Range]

PERCENTILE = 99.999
ENTROPY_BINS, ENTROPY_LEVELS = 1024, 128
STEPS = 255
TRIED = 128  # shares of the lowest and the highest value that `mse` tries
TURNS = 2


def minmax(histogram: Histogram) -> Range:
    """All that was seen."""
    return histogram.lowest, histogram.highest


def percentile(histogram: Histogram) -> Range:
    """All but the outermost values, `PERCENTILE` percent of them in between."""
    return _calibrated("percentile", histogram, 1)


def entropy(histogram: Histogram) -> Range:
    """The range whose quantised values tell most of the distribution (least Kullback-Leibler divergence)."""
    return _calibrated("entropy", histogram, BINS // ENTROPY_BINS)


def mse(histogram: Histogram) -> Range:
    """The range of the least mean square error: what is clipped, and half a step of rounding elsewhere.

    A rounded value is off by step^2 / 12 on average; an exact zero stays zero in any range.
    """
    (filled,) = np.nonzero(histogram.counts)
    centres, counts = histogram.centres[filled], histogram.counts[filled].astype(float)
    rounded = histogram.total - histogram.exact_zeros

    def error(low: float, high: float) -> float:
        clipped = (counts * (centres - np.clip(centres, low, high)) ** 2).sum()
        return float(clipped + rounded * ((high - low) / STEPS) ** 2 / 12)

    low, high = with_zero(minmax(histogram))
    shares = np.arange(TRIED, 0, -1) / TRIED  # the widest of equally good ones
    for _ in range(TURNS):
        high = min((high * share for share in shares), key=lambda each: error(low, each))
        low = min((low * share for share in shares), key=lambda each: error(each, high))
    return low, high


METHODS: Mapping[str, Method] = {"minmax": minmax, "percentile": percentile, "entropy": entropy, "mse": mse}


def with_zero(span: Range) -> Range:
    """A range that holds 0, which must have an exact value: padding and ReLU make many of them."""
    return min(span[0], 0.0), max(span[1], 0.0)


def chosen_range(method: str, histogram: Histogram) -> Range:
    """What a method chooses, with 0 in it; of a tensor of one value there is nothing to choose."""
    is_one = histogram.lowest == histogram.highest
    return with_zero(minmax(histogram) if is_one else METHODS[method](histogram))


def _calibrated(method: str, histogram: Histogram, joined: int) -> Range:
    """What ONNX Runtime's calibrator chooses, of bins that are `joined` by so many."""
    from onnxruntime.quantization.calibrate import HistogramCollector

    collector = HistogramCollector(method, False, BINS // joined, ENTROPY_LEVELS, PERCENTILE, None)
    counts = histogram.counts.reshape(-1, joined).sum(1)
    edges = histogram.edges[::joined].astype(np.float32)
    ends = (np.float32(each) for each in (histogram.lowest, histogram.highest, histogram.limit))
    collector.histogram_dict["x"] = (counts, edges, *ends)
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        low, high, *_ = collector.compute_collection_result()["x"]
    return float(low), float(high)
