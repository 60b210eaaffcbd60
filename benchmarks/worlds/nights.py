"""Noise of single blocks, and of whole nights that all blocks share: deviations of the logarithm."""

from collections.abc import Callable

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


YEAR, WEEK = 365, 7
NightEffect = Callable[[np.random.Generator, int], Array]


def nothing(random: np.random.Generator, nights: int) -> Array:
    """All nights are alike."""
    return np.zeros(nights)


def gaussian_nights(random: np.random.Generator, nights: int, scale: float) -> Array:
    """Independent nights."""
    return gaussian(random, nights, scale)


def student_nights(random: np.random.Generator, nights: int, scale: float) -> Array:
    """Independent nights with Student's t of 3 degrees."""
    return student(random, nights, scale)


def lognormal_nights(random: np.random.Generator, nights: int, scale: float) -> Array:
    """Independent nights with a lognormal delay."""
    return lognormal(random, nights, scale)


def slow_nights(random: np.random.Generator, nights: int, share: float, low: float, high: float) -> Array:
    """A share of nights is slower by something between low and high."""
    return np.where(random.random(nights) < share, np.log1p(random.uniform(low, high, nights)), 0.0)


def clock_nights(random: np.random.Generator, nights: int, share: float, apart: float, lasting: float) -> Array:
    """Two clocks; each lasts so many nights on average before it is drawn anew."""
    is_drawn = random.random(nights) < 1 / lasting
    is_drawn[0] = True
    state = (random.random(nights) < share)[np.maximum.accumulate(np.where(is_drawn, np.arange(nights), 0))]
    return np.where(state, np.log1p(apart), 0.0)


def levels(random: np.random.Generator, nights: int, scale: float, lasting: float) -> Array:
    """A level that each reboot draws anew, after so many nights on average."""
    return _lasting(random, gaussian(random, nights, scale), lasting)


def even_levels(random: np.random.Generator, nights: int, most: float, lasting: float) -> Array:
    """The same, evenly within a bound on either side."""
    return _lasting(random, random.uniform(-most, most, nights), lasting)


def _lasting(random: np.random.Generator, drawn: Array, lasting: float) -> Array:
    """Of what was drawn for nights each in turn, for so many nights on average."""
    is_drawn = random.random(len(drawn)) < 1 / lasting
    is_drawn[0] = True
    return np.asarray(drawn[np.maximum.accumulate(np.where(is_drawn, np.arange(len(drawn)), 0))])


def autoregressive(random: np.random.Generator, nights: int, scale: float, coefficient: float) -> Array:
    """AR(1), given by its stationary standard deviation."""
    drift = gaussian(random, nights, scale)
    for night in range(1, nights):
        drift[night] = coefficient * drift[night - 1] + (1 - coefficient**2) ** 0.5 * drift[night]
    return drift


def random_walk(random: np.random.Generator, nights: int, scale: float) -> Array:
    """Each night moves on by a normal step."""
    return np.cumsum(gaussian(random, nights, scale))


def season(random: np.random.Generator, nights: int, low: float, high: float, period: int) -> Array:
    """A sine of an amplitude between low and high, begun anywhere."""
    phase = random.uniform(0, 2 * np.pi)
    return np.asarray(random.uniform(low, high) * np.sin(2 * np.pi * np.arange(nights) / period + phase))


def seasons(random: np.random.Generator, nights: int) -> Array:
    """The year moves the level by 3 to 5 %, the week by 1.5 to 3 %."""
    return season(random, nights, 0.03, 0.05, YEAR) + season(random, nights, 0.015, 0.03, WEEK)
