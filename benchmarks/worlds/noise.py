"""Noise of single blocks: (random, shape) -> deviations of the logarithm, scaled so that `scale` is a share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Shape = int | tuple[int, ...]


def gaussian(random: np.random.Generator, shape: Shape, scale: float) -> Array:
    """Normal; the scale is the standard deviation."""
    return np.asarray(random.normal(0, scale, shape))


def student(random: np.random.Generator, shape: Shape, scale: float, degrees: float = 3.0) -> Array:
    """Student's t: one in seventy lies beyond four scales, one in two thousand beyond twelve."""
    return np.asarray(scale * random.standard_t(degrees, shape))


def lognormal(random: np.random.Generator, shape: Shape, scale: float) -> Array:
    """A delay on top that is lognormal, of this median: seldom several times as long, never negative."""
    return np.asarray(np.log1p(scale * (random.lognormal(0, 1, shape) - 1)))


def clock_states(random: np.random.Generator, shape: Shape, scale: float, share: float, apart: float) -> Array:
    """Each block for itself runs at the slower of two clocks in a share of cases; normal noise on top."""
    return gaussian(random, shape, scale) + np.where(random.random(shape) < share, np.log1p(apart), 0.0)
