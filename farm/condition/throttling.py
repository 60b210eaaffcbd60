"""Samples that heat has spoiled: told by the state before and after, measured again after a rest, else marked. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeVar

from farm.condition.readiness import MODERATE, THERMAL_WORDS
from farm.rows.device_state import DeviceState

Value = TypeVar("Value")
TOLERANCE = 0.99  # clocks are told in whole steps, which differ in rounding


@dataclasses.dataclass(frozen=True)
class Rest:
    """How often a throttled sample is measured again at most, and how long the unit rests before each time."""

    times: int = 2
    rest_s: float = 30.0


@dataclasses.dataclass(frozen=True)
class Measured(Generic[Value]):
    """A sample with the state round it; `throttled` says what spoiled it (empty: nothing), after so many repeats."""

    value: Value
    before: DeviceState
    after: DeviceState
    throttled: str = ""
    repeats: int = 0


def throttled(before: DeviceState, after: DeviceState) -> str:
    """What slowed the unit down between two looks; empty where nothing tells so."""
    status = max((state.thermal_status for state in (before, after) if state.thermal_status is not None), default=0)
    if status >= MODERATE:
        return f"thermal status {THERMAL_WORDS[status]}"
    if (after.cooling or 0) > 0:
        return f"the kernel slows the chip down (step {after.cooling})"
    return _lowered(before, after)


def measured(
    measure: Callable[[], Value],
    read: Callable[[], DeviceState],
    sleep: Callable[[float], None],
    rest: Rest | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Measured[Value]:
    """Measures; where the sample was throttled, again after a rest, and at last with the mark that it is so."""
    rest, repeats = rest or Rest(), 0
    while True:
        before = read()
        value = measure()
        after = read()
        reason = throttled(before, after)
        if not reason or repeats >= rest.times:
            return Measured(value, before, after, reason, repeats)
        repeats += 1
        say(f"throttled ({reason}): rests {rest.rest_s:g} s, then measured again ({repeats} of {rest.times})")
        sleep(rest.rest_s)


def _lowered(before: DeviceState, after: DeviceState) -> str:
    """A core whose highest clock fell."""
    clocks = zip(before.clock_limit_mhz, after.clock_limit_mhz, strict=False)
    for core, (was_mhz, is_mhz) in enumerate(clocks):
        if is_mhz < was_mhz * TOLERANCE:
            return f"core {core} was limited to {is_mhz:.0f} of {was_mhz:.0f} MHz"
    return ""
