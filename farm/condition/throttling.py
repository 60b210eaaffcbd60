"""Detects throttled samples by the state before and after; measures them again after a pause, or marks them. Pure."""

import dataclasses
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Generic, TypeVar

from farm.condition.readiness import MODERATE, THERMAL_STATUS_NAMES
from farm.rows.device_state import DeviceState

Value = TypeVar("Value")
TOLERANCE = 0.99  # clock limits come in steps whose rounding differs


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How often a throttled sample is measured again at most, and how long the unit rests before each repeat."""

    max_repeats: int = 2
    rest_s: float = 30.0


@dataclasses.dataclass(frozen=True)
class MeasuredSample(Generic[Value]):
    """A sample with the unit's state before and after it.

    Attributes:
        cause: why the sample counts as throttled, even after the repeats; empty for a good one.
        repeats: how often it was measured again.
    """

    value: Value
    before: DeviceState
    after: DeviceState
    cause: str = ""
    repeats: int = 0


def throttling_cause(before: DeviceState, after: DeviceState) -> str:
    """Says what slowed the unit down between two readings; empty where nothing did."""
    status = max((state.thermal_status for state in (before, after) if state.thermal_status is not None), default=0)
    if status >= MODERATE:
        return f"thermal status {THERMAL_STATUS_NAMES[status]}"
    if step := _risen_step(before.cooling_steps, after.cooling_steps):
        return f"the kernel slows the chip down (step {step})"
    return _clock_limit_drop(before, after)


def measure_unthrottled(
    measure: Callable[[], Value],
    read: Callable[[], DeviceState],
    sleep: Callable[[float], None],
    retry: RetryPolicy | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> MeasuredSample[Value]:
    """Measures a sample; repeats a throttled one after a pause, and marks it if the last repeat is throttled too."""
    retry, repeats = retry or RetryPolicy(), 0
    while True:
        before = read()
        value = measure()
        after = read()
        reason = throttling_cause(before, after)
        if not reason or repeats >= retry.max_repeats:
            return MeasuredSample(value, before, after, reason, repeats)
        repeats += 1
        say(f"throttled ({reason}): rests {retry.rest_s:g} s, then measured again ({repeats} of {retry.max_repeats})")
        sleep(retry.rest_s)


def _risen_step(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """The highest step of a cooling device that rose; 0 where none did: some never leave one, however cool they are."""
    return max((step for device, step in after.items() if step > before.get(device, 0)), default=0)


def _clock_limit_drop(before: DeviceState, after: DeviceState) -> str:
    """Says which core's clock limit fell, and how far, or which cluster is gone; empty where neither is so.

    Single cores go offline while a phone idles, but a whole cluster that worked before is gone by heat.
    """
    if not after.clock_limit_mhz:
        return ""
    limits = list(zip_longest(before.clock_limit_mhz, after.clock_limit_mhz, fillvalue=0.0))
    for core, (was_mhz, is_mhz) in enumerate(limits):
        if 0 < is_mhz < was_mhz * TOLERANCE:
            return f"core {core} was limited to {is_mhz:.0f} of {was_mhz:.0f} MHz"
        if was_mhz > 0 and not any(left_mhz for mhz, left_mhz in limits if mhz == was_mhz):
            return f"core {core} and all others of {was_mhz:.0f} MHz went offline"
    return ""
