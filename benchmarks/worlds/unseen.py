"""Worlds that the decision's thresholds were not chosen on; simulated_series.py defines the terms.

The ground of each is blocks of 1 % (a night's figure of six) and nights of 1 %, on units with a fan; a world changes
one thing. Shares, not percent.
"""

import dataclasses
import functools

import numpy as np

from benchmarks.simulated_series import HOT_HIGH, HOT_LOW, World
from benchmarks.worlds.nights import (
    Array,
    NightEffect,
    autoregressive,
    clock_nights,
    clock_states,
    even_levels,
    gaussian_nights,
    levels,
    lognormal,
    lognormal_nights,
    random_walk,
    seasons,
    slow_nights,
    student,
    student_nights,
)

APART = 0.15  # of two clocks
of = functools.partial


@dataclasses.dataclass(frozen=True)
class Sum:
    """Effects of nights, one on top of another."""

    effects: tuple[NightEffect, ...]

    def __call__(self, random: np.random.Generator, nights: int) -> Array:
        return np.asarray(sum(effect(random, nights) for effect in self.effects))


NIGHTS = of(gaussian_nights, scale=0.01)
GROUND = World("Gaussian nights", 0.01, nights=NIGHTS)


def _with(name: str, *effects: NightEffect, room: NightEffect | None = None) -> World:
    """The ground with further effects of nights."""
    world = dataclasses.replace(GROUND, name=name, nights=Sum((NIGHTS, *effects)))
    return dataclasses.replace(world, room=room) if room else world


def _built(name: str, most: float, lasting: float, world: World = GROUND) -> World:
    """A world with builds of farmrt that are faster or slower by up to so much, each for so many nights."""
    return dataclasses.replace(world, name=name, builds=of(even_levels, most=most, lasting=lasting))


AUTOREGRESSIVE = _with("AR(1) 0.9", of(autoregressive, scale=0.015, coefficient=0.9))


UNSEEN = (
    GROUND,
    World("Student t(3) blocks and nights", 0.01, blocks=student, nights=of(student_nights, scale=0.01)),
    World("lognormal", 0.01, blocks=lognormal, nights=of(lognormal_nights, scale=0.01)),
    dataclasses.replace(GROUND, name="clock state per block", blocks=of(clock_states, share=0.3, apart=APART)),
    _with("clock state per night, p 0.05", of(clock_nights, share=0.05, apart=APART, lasting=1)),
    _with("clock state per night, p 0.5", of(clock_nights, share=0.5, apart=APART, lasting=1)),
    _with("clock state for 10 nights", of(clock_nights, share=0.5, apart=APART, lasting=5)),
    dataclasses.replace(GROUND, name="noise x5 over a year", grown=5.0),
    _with("outlier nights, 3 %", of(slow_nights, share=0.03, low=HOT_LOW, high=HOT_HIGH)),
    _with("reboot levels 2 %, 1 in 14", of(levels, scale=0.02, lasting=14)),
    _with("reboot levels 2 %, 1 in 30", of(levels, scale=0.02, lasting=30)),
    AUTOREGRESSIVE,
    _with("random walk 0.3 %", of(random_walk, scale=0.003)),
    _built("a build every night, ±4 %", 0.04, 1),
    _built("a build each week, ±4 %", 0.04, 7),
    _built("a build every night, alike, AR(1) 0.9", 1e-9, 1, AUTOREGRESSIVE),
    _with("seasons of year and week", seasons),
    dataclasses.replace(GROUND, name="30 % missing nights", missing=0.3),
    dataclasses.replace(GROUND, name="1 ms timer on 6 ms", timer_ms=1.0, base_ms=(5.6, 6.4)),
    dataclasses.replace(GROUND, name="further blocks 3 % slower", later=0.03),
    dataclasses.replace(GROUND, name="further blocks 8 % slower", later=0.08),
    _with("all units hot on the same nights", room=of(slow_nights, share=0.03, low=HOT_LOW, high=HOT_HIGH)),
    _with("common AR(1) 1.5 %", room=of(autoregressive, scale=0.015, coefficient=0.9)),
    _with("common levels 4 %", room=of(levels, scale=0.04, lasting=30)),
    dataclasses.replace(GROUND, name="series of 20 nights", length=20),
)
