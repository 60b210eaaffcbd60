"""Nightly rows with made-up blocks, for tests of what works on stored runs."""

import itertools
from typing import Any

import numpy as np

from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, NightlyRow

TIME = "2026-01-01T00:00:00+00:00"
LEVEL_MS = 10.0


def noisy_samples(count: int, level_ms: float = LEVEL_MS, percent: float = 1.0, seed: int = 1) -> list[float]:
    """Figures round a level, with noise in proportion to it."""
    noise = np.random.default_rng(seed).normal(0, percent / 100, count)
    return [float(value) for value in level_ms * np.exp(noise)]


def nightly_case(model: str = "m", level_ms: float = LEVEL_MS, seed: int = 1, **more: Any) -> NightlyRow:
    """The row of a case with eight blocks; the outlier in each does not move its median."""
    blocks = tuple(
        Block(
            time=TIME,
            arm=arm,
            init_ms=1.0,
            first_ms=2.0,
            samples=(value, value, 9 * value),
            state_before=DeviceState(),
            state_after=DeviceState(),
        )
        for value, arm in zip(noisy_samples(8, level_ms, seed=seed), itertools.cycle("ab"), strict=False)
    )
    names = {"unit": "u", "soc": "s", "device_model": "d", "library": "l", "runtime": "gpu", "status": "ok"}
    return NightlyRow(model=model, **{**names, "blocks": blocks, **more})
