"""Ranks candidates by a surrogate model of time: launches of one kernel prefer the same variants and local sizes.

Time is modelled as a product: launch x variant x local size. In logarithms these are penalties that add up: a
variant's penalty is how far its best time is behind the launch's best, a local size's penalty how far it is behind the
best one of the same launch and variant. A launch's own measurements have weight 1, other launches' less, a neighbouring
local size's by its distance, and the analytic guess (space.local_cost) counts like one weak measurement.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from runtime.kernels.spec import Variant
from tuner.relatives import KernelRelatives
from tuner.trial import Candidate, LocalSize

_OTHER_LAUNCH = 0.3  # weight of another launch's measurement, to 1 for the launch's own
_GUESS = 0.15  # weight of the analytic guess
_NEIGHBOUR = 0.4  # weight of a local size that differs by a factor of two in one dimension
_FAILURE = 3.0  # penalty of a variant that fails: as bad as twenty times slower

_SPREAD = 0.1  # how far a prediction with weight 1 may be off

Floats = npt.NDArray[np.float64]
SizeGaps = dict[LocalSize, list[float]]


class Ranking:
    """Times of one kernel family, and predictions from them. `key` is always a launch's tuning key.

    `relatives` are other devices, which know something of variants that were not tried here.
    """

    def __init__(self, relatives: KernelRelatives | None = None) -> None:
        self._relatives = relatives
        self._log_ns: dict[str, dict[Candidate, float]] = defaultdict(dict)
        self._best: dict[tuple[str, Variant], float] = {}
        self._failed: dict[str, set[Candidate]] = defaultdict(set)

    def observe(self, key: str, candidate: Candidate, ns: float) -> None:
        """Adds a launch's time with a candidate, which replaces one before; an infinite one is a failure."""
        self._forget(key, candidate)
        if not math.isfinite(ns):
            self._failed[key].add(candidate)
            return
        if self._relatives:
            self._relatives.observe(key, candidate.variant, ns)
        log_ns = math.log(ns)
        self._log_ns[key][candidate] = log_ns
        group = (key, candidate.variant)
        self._best[group] = min(log_ns, self._best.get(group, math.inf))

    def _forget(self, key: str, candidate: Candidate) -> None:
        """Drops a time, and what was the best of its variant by it."""
        times = self._log_ns.get(key, {})
        if candidate in times:
            del times[candidate], self._best[key, candidate.variant]
            if alike := [log_ns for each, log_ns in times.items() if each.variant == candidate.variant]:
                self._best[key, candidate.variant] = min(alike)

    def tried(self, key: str, candidate: Candidate) -> bool:
        """Whether this launch was measured with this candidate, whether it succeeded or failed."""
        return candidate in self._log_ns[key] or candidate in self._failed[key]

    def tried_count(self, key: str) -> int:
        """How many candidates this launch was measured with."""
        return len(self._log_ns[key]) + len(self._failed[key])

    def best_ns(self, key: str) -> float:
        """The launch's shortest time; infinite where none is known."""
        return math.exp(min(self._log_ns[key].values(), default=math.inf))

    def best(self, key: str, count: int) -> list[Candidate]:
        """The launch's fastest candidates, the fastest first."""
        times = self._log_ns[key]
        return sorted(times, key=lambda candidate: times[candidate])[:count]

    def ns(self, key: str, candidate: Candidate) -> float:
        """The launch's time with a candidate; infinite where it failed or was not tried."""
        return math.exp(self._log_ns[key].get(candidate, math.inf))

    def best_over_default(self, key: str, default: Candidate) -> float:
        """The launch's best time over its default's; 1 where the default has none."""
        times = self._log_ns[key]
        return math.exp(min(times.values()) - times[default]) if default in times else 1.0

    def gap(self, key: str, candidate: Candidate) -> float:
        """How far a measured candidate is behind the launch's best, in logarithms; infinite where it failed."""
        times = self._log_ns[key]
        return times[candidate] - min(times.values()) if candidate in times else math.inf

    def variant_penalty(self, key: str, variant: Variant) -> float | None:
        """How far a variant is behind the best, in logarithms; None if unknown.

        The launch's own measurements decide; without any, the mean over other launches, then other devices. Where a
        launch has tried only variants that are slow on other launches, their gap there is added: its own best is not
        the best there is.
        """
        own = self._variant_gap(key, variant)
        if own is None:
            elsewhere = self._mean_gap_elsewhere(key, variant)
            return elsewhere if elsewhere is not None or not self._relatives else self._relatives.penalty(variant)
        tried = [tried_variant for other, tried_variant in self._best if other == key]
        return own + min((self._mean_gap_elsewhere(key, tried_variant) or 0.0 for tried_variant in tried), default=0.0)

    def in_order(self, key: str, variants: Iterable[Variant]) -> list[Variant]:
        """A launch's variants, the most promising first; where only defaults were timed, as other devices suggest."""
        tried = Counter(other for other, _ in self._best)
        if self._relatives and max(tried.values(), default=0) <= 1:
            return self._relatives.in_order(list(variants))
        return sorted(variants, key=lambda variant: self.variant_penalty(key, variant) or 0.0)

    def is_far_behind(self, variant: Variant, by_options: bool) -> bool:
        """Whether a variant that was never tried is not worth a build: on devices that are alike, or by its options."""
        if any(tried == variant for _, tried in self._best):
            return False
        if self._relatives is not None and self._relatives.is_far_behind(variant):
            return True
        return by_options and is_far_behind(variant, self._gaps())

    def expected_gap(self, variant: Variant) -> float:
        """How far other devices, else its options, say that a variant is behind the best; 0 where nothing is said."""
        known = self._relatives.penalty(variant) if self._relatives else None
        return expected_gap(variant, self._gaps())[0] if known is None else known

    def _gaps(self) -> dict[Variant, float]:
        """How far each variant is behind the best on the launch where it is least so, in logarithms."""
        gaps: dict[Variant, float] = {}
        for (key, variant), log_ns in self._best.items():
            if len(self._log_ns[key]) > 1:
                gap = log_ns - min(self._log_ns[key].values())
                gaps[variant] = min(gap, gaps.get(variant, math.inf))
        return gaps

    def is_behind_elsewhere(self, key: str, variant: Variant, gap: float) -> bool:
        """Returns whether every other launch that tried a variant found it this far behind, in logarithms."""
        if self._variant_gap(key, variant) is not None:
            return False
        return min(self._gaps_elsewhere(key, variant), default=0.0) > gap

    def _mean_gap_elsewhere(self, key: str, variant: Variant) -> float | None:
        gaps = self._gaps_elsewhere(key, variant)
        return sum(gaps) / len(gaps) if gaps else None

    def _gaps_elsewhere(self, key: str, variant: Variant) -> list[float]:
        others = {*self._log_ns, *self._failed} - {key}
        return [gap for other in others if (gap := self._variant_gap(other, variant)) is not None]

    def _variant_gap(self, key: str, variant: Variant) -> float | None:
        if (key, variant) in self._best:
            return self._best[key, variant] - min(self._log_ns[key].values())
        return _FAILURE if any(candidate.variant == variant for candidate in self._failed[key]) else None

    def expected_improvement(self, key: str, sizes: Sequence[LocalSize], guesses: Sequence[float]) -> Floats:
        """Expected improvement of each local size, in logarithms: large where few or good measurements are near.

        Approximates the expected improvement of a normal distribution round the predicted penalty (J. Mockus, 1975) by
        a softplus that is close to it.
        """
        if not len(sizes):
            return np.empty(0)
        penalties, weights = self._local_penalties(key, sizes, np.asarray(guesses, np.float64))
        spread = _SPREAD / np.sqrt(weights)
        return np.asarray(spread * np.log1p(np.exp(-penalties / (0.6 * spread))))

    def _local_penalties(self, key: str, sizes: Sequence[LocalSize], guesses: Floats) -> tuple[Floats, Floats]:
        """How far each local size is predicted to be behind the best one, and the total weight of the evidence."""
        own, others = self._gaps_by_size(key)
        penalties, weights = _GUESS * guesses, np.full(len(sizes), _GUESS)
        for gaps, trust in ((own, 1.0), (others, _OTHER_LAUNCH)):
            if gaps:
                closeness = trust * _closeness(sizes, list(gaps))
                penalties = penalties + closeness @ np.array([sum(of_size) / len(of_size) for of_size in gaps.values()])
                weights = weights + closeness.sum(axis=1)
        return penalties / weights, weights

    def _gaps_by_size(self, key: str) -> tuple[SizeGaps, SizeGaps]:
        """Gaps to the best local size of the same variant: the launch's own, and other launches'."""
        own: SizeGaps = defaultdict(list)
        others: SizeGaps = defaultdict(list)
        for other, times in self._log_ns.items():
            for candidate, log_ns in times.items():
                gap = log_ns - self._best[other, candidate.variant]
                (own if other == key else others)[candidate.local_size].append(gap)
        return own, others


def _closeness(sizes: Sequence[LocalSize], others: Sequence[LocalSize]) -> Floats:
    """Weight of a time with one of the `others` as evidence for each of the `sizes`, 0 to 1; shape [sizes, others].

    The driver's own choice of a local size is evidence for itself only.
    """
    one, two = np.asarray(sizes, np.float64), np.asarray(others, np.float64)
    steps = np.abs(np.log2(np.maximum(one, 1))[:, None, :] - np.log2(np.maximum(two, 1))[None, :, :]).sum(axis=2)
    comparable = (one[:, :1] == 0) == (two[:, 0] == 0)[None, :]
    return np.asarray(np.where(comparable, _NEIGHBOUR**steps, 0.0))


# Predicts untried variants by their options: each option's value makes a variant slower by a factor of its own.
#
# In logarithms such effects add up: a ridge regression on one column for each value of each option (A. Hoerl and
# R. Kennard, 1970), fitted to how far the variants that were tried are behind the best. What no variant has shown yet
# has no effect, so a prediction errs towards trying.
_LEAST_VARIANTS = 6  # tried, until options say anything
_RIDGE = 0.3  # pull of each effect towards none, in variants
_FAR_BEHIND = math.log(1.6)  # by a prediction that errs by its usual amount: not worth a build


def is_far_behind(variant: Variant, gaps: Mapping[Variant, float]) -> bool:
    """Whether a variant that was not tried is not worth a build; `gaps` of those that were, in logarithms."""
    gap, error = expected_gap(variant, gaps)
    return len(gaps) >= _LEAST_VARIANTS and gap - error > _FAR_BEHIND


def expected_gap(variant: Variant, gaps: Mapping[Variant, float]) -> tuple[float, float]:
    """How far a variant is expected to be behind the best, in logarithms, and by how much such a prediction errs."""
    if not gaps:
        return 0.0, 0.0
    tried = list(gaps)
    values = sorted({option for each in tried for option in each.defines})
    observed = np.array([gaps[each] for each in tried])
    columns = np.array([_columns(each, values) for each in tried])
    effects = np.linalg.solve(columns.T @ columns + _RIDGE * np.eye(len(values)), columns.T @ observed)
    error = float(np.sqrt(np.mean((columns @ effects - observed) ** 2)))
    return float(_columns(variant, values) @ effects), error


def _columns(variant: Variant, values: list[tuple[str, int]]) -> Floats:
    return np.array([value in variant.defines for value in values], np.float64)
