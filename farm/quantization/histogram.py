"""How the values of a tensor are spread: counted sample by sample, in memory that does not hang on the values."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BINS = 8192  # an even number of them on either side of 0


@dataclasses.dataclass
class Histogram:
    """Counts of values in `BINS` equal bins from -limit to limit.

    The limit is a power of two, and neighbouring bins are joined when it has to grow: so it is exact to a bin, in
    whatever order samples come. Values that are not finite are counted apart.

    Attributes:
        lowest, highest: of the finite values; 0 where there is none.
        exact_zeros: how many values are 0.
        not_finite: how many values are infinite or NaN.
    """

    limit: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    exact_zeros: int = 0
    not_finite: int = 0
    counts: Array = dataclasses.field(default_factory=lambda: np.zeros(BINS, np.int64))

    @property
    def total(self) -> int:
        """How many finite values were counted."""
        return int(self.counts.sum())

    @property
    def edges(self) -> Array:
        """The borders of the bins, one more than there are bins."""
        return np.linspace(-self.limit, self.limit, BINS + 1)

    @property
    def centres(self) -> Array:
        """The middle of each bin."""
        edges = self.edges
        return (edges[:-1] + edges[1:]) / 2

    def add(self, values: Array) -> None:
        """Counts values of any shape."""
        flat = np.asarray(values, np.float32).reshape(-1)
        finite = flat[np.isfinite(flat)]
        self.not_finite += flat.size - finite.size
        if not finite.size:
            return
        low, high = float(finite.min()), float(finite.max())
        is_first = self.total == 0
        self.lowest = low if is_first else min(self.lowest, low)
        self.highest = high if is_first else max(self.highest, high)
        self.exact_zeros += int(finite.size - np.count_nonzero(finite))
        self._grow(max(-low, high))
        if self.limit:
            places = np.floor(finite.astype(np.float64) * (BINS / 2 / self.limit)).astype(np.int64) + BINS // 2
            self.counts += np.bincount(np.clip(places, 0, BINS - 1), minlength=BINS)
        else:
            self.counts[BINS // 2] += finite.size

    def _grow(self, magnitude: float) -> None:
        """Joins bins until values of a magnitude have a place."""
        wanted = 2.0 ** math.frexp(magnitude)[1] if magnitude else 0.0
        if self.limit == 0.0:
            self.limit = wanted
        while self.limit < wanted:
            middle, self.counts = self.counts.reshape(-1, 2).sum(1), np.zeros(BINS, np.int64)
            self.counts[BINS // 4 : BINS // 4 * 3] = middle
            self.limit *= 2

    def clipped_share(self, low: float, high: float) -> float:
        """The share of the values that lie outside of a range by more than a bin."""
        edges = self.edges
        outside = (edges[1:] < low) | (edges[:-1] > high)
        return float(self.counts[outside].sum() / max(1, self.total))

    def drawn(self, bars: int) -> list[int]:
        """Counts in so many equal parts of what lies between the lowest and the highest value."""
        span = (self.lowest, self.highest) if self.highest > self.lowest else (self.lowest - 1, self.lowest + 1)
        counts, _ = np.histogram(np.clip(self.centres, *span), bars, span, weights=self.counts)
        return [int(count) for count in counts]
