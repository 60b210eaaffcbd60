"""How far a quantised model departs from the float one, over samples; and which layers have to stay in float."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farm.model import metrics
from farm.quantization.layers import LayerNodes

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]


@dataclasses.dataclass(frozen=True)
class Fidelity:
    """What is left of the float outputs.

    Attributes:
        sqnr_db: signal to noise over all samples, of the worst output.
        agreement: share of pixels (of samples, where an output is no image) whose largest channel is the float one's.
    """

    sqnr_db: float
    agreement: float


@dataclasses.dataclass(frozen=True)
class LossBudget:
    """What a quantised model must keep at least; None: anything goes. `accuracy` is an agreement in percent."""

    sqnr_db: float | None = None
    accuracy: float | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is anything to keep."""
        return self.sqnr_db is not None or self.accuracy is not None

    @property
    def text(self) -> str:
        """In words."""
        least = [] if self.sqnr_db is None else [f"{self.sqnr_db:g} dB"]
        least += [] if self.accuracy is None else [f"{self.accuracy:g} % agreement"]
        return f"at least {' and '.join(least)}"

    def holds(self, found: Fidelity) -> bool:
        """Whether a model keeps it."""
        keeps_noise = self.sqnr_db is None or found.sqnr_db >= self.sqnr_db
        return keeps_noise and (self.accuracy is None or 100 * found.agreement >= self.accuracy)


NO_BUDGET = LossBudget()


def fidelity(expected: Sequence[Outputs], actual: Sequence[Outputs], axes: Mapping[str, int]) -> Fidelity:
    """Compares the outputs of samples; `axes` are of the channels, by output."""
    pairs = [(name, e[name], a[name]) for e, a in zip(expected, actual, strict=True) for name in axes]
    agreements = [metrics.compare(e, a, axes[name]).pixel_accuracy for name, e, a in pairs]
    return Fidelity(min(sqnr_by_tensor(expected, actual, [*axes]).values()), statistics.fmean(agreements))


def power_of(sqnr_db: float) -> float:
    """Noise power over signal power."""
    return float(10 ** (-sqnr_db / 10))


def sqnr_by_tensor(expected: Sequence[Outputs], actual: Sequence[Outputs], names: Sequence[str]) -> dict[str, float]:
    """Signal to noise of tensors over all samples, in decibels, limited as those of farm.model.metrics."""
    return {name: _sqnr_db([(e[name], a[name]) for e, a in zip(expected, actual, strict=True)]) for name in names}


def _sqnr_db(pairs: Sequence[tuple[Array, Array]]) -> float:
    signal = noise = 0.0
    for e, a in pairs:
        counted = np.isfinite(e)
        wide = e[counted].astype(np.float64)
        signal += float((wide**2).sum())
        noise += float(((wide - a[counted]) ** 2).sum())
    limit = metrics.SQNR_LIMIT_DB
    if not math.isfinite(noise) or signal == 0.0:
        return limit if noise == 0.0 else -limit
    return limit if noise == 0.0 else max(-limit, min(limit, 10 * math.log10(signal / noise)))


def fewest_in_float(
    layers: Sequence[LayerNodes], alone_db: Mapping[str, float], holds: Callable[[frozenset[str]], bool]
) -> frozenset[str] | None:
    """The layers that have to stay in float, those that lose most alone before others; None: not one can be quantised.

    `holds` tells whether a budget holds with these in float; it is asked for a number of layers between one that is
    too few and one that is enough, until these are neighbours.
    """
    worst_first = sorted((layer.name for layer in layers), key=lambda name: alone_db[name])
    too_few, enough = -1, len(worst_first)
    step = 0
    while enough - too_few > 1:
        count = min(too_few + max(1, step), enough - 1) if enough == len(worst_first) else (too_few + enough) // 2
        if holds(frozenset(worst_first[:count])):
            enough = count
        else:
            too_few, step = count, max(1, 2 * step)
    return None if enough == len(worst_first) else frozenset(worst_first[:enough])
