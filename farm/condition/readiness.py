"""Whether a unit is fit for a job, and waiting until it is. Pure: reading, clock and sleep are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from farm.config.inventory import Limits
from farm.rows.device_state import DeviceState
from runtime.errors import DeviceError

THERMAL_WORDS = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
MODERATE = 2  # from this status on Android slows the chip down so that one feels it
POLL_S, LEAST_SLEEP_S = 5.0, 0.01
BYTES_PER_MB = 1_000_000


@dataclasses.dataclass(frozen=True)
class Unfit:
    """Why a unit is not fit for a job, and whether that may pass by itself."""

    reason: str
    passes: bool = True


@dataclasses.dataclass(frozen=True)
class Fit:
    """The state in which a unit was fit, how long that took, and what it was waited for (empty: nothing)."""

    state: DeviceState
    waited_s: float = 0.0
    waited_for: str = ""


def unfit(state: DeviceState, limits: Limits) -> list[Unfit]:
    """All that speaks against a job now; what a unit does not tell does not count."""
    found = [
        _heat(state, limits),
        _thermal_status(state),
        _battery(state, limits),
        _storage(state, limits),
        _low_power(state),
    ]
    return [each for each in found if each]


def wait_until_fit(
    name: str,
    read: Callable[[], DeviceState],
    limits: Limits,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    say: Callable[[str], None] = lambda text: None,
) -> Fit:
    """Waits for a unit that is too hot or too empty, `limits.wait_s` at most.

    Args:
        name: the unit's, for messages.
        read: its state now.
        limits: what it must fulfil.
        clock, sleep: in seconds.
        say: told at each look what is waited for, and for how long at most.

    Raises:
        DeviceError: it did not become fit in time, or cannot by waiting; the text says why.
    """
    start_s, waited_for = clock(), ""
    while True:
        state = read()
        problems = unfit(state, limits)
        waited_s = clock() - start_s
        if not problems:
            return Fit(state, waited_s if waited_for else 0.0, waited_for)
        reasons = ", ".join(each.reason for each in problems)
        if not all(each.passes for each in problems):
            raise DeviceError(f"{name}: not fit for a job: {reasons}")
        left_s = limits.wait_s - waited_s
        if left_s < LEAST_SLEEP_S:
            raise DeviceError(f"{name}: not fit for a job after {waited_s:.0f} s of waiting (wait_s): {reasons}")
        waited_for = waited_for or reasons
        say(f"waiting: {reasons} ({waited_s:.0f} of at most {limits.wait_s:.0f} s)")
        sleep(min(POLL_S, left_s))


def _heat(state: DeviceState, limits: Limits) -> Unfit | None:
    most = limits.max_start_temp_c
    if most is None or state.temperature_c is None or state.temperature_c <= most:
        return None
    return Unfit(f"{state.temperature_c:.1f} °C, above max_start_temp_c {most:g}")


def _thermal_status(state: DeviceState) -> Unfit | None:
    status = state.thermal_status
    return Unfit(f"thermal status {THERMAL_WORDS[status]}") if status is not None and status >= MODERATE else None


def _battery(state: DeviceState, limits: Limits) -> Unfit | None:
    least, percent = limits.min_battery_percent, state.battery_percent
    if least is None or percent is None or percent >= least:
        return None
    reason = f"battery at {percent} %, below min_battery_percent {least}"
    return Unfit(f"{reason}, and it is not charging: plug it in", False) if state.charging is False else Unfit(reason)


def _storage(state: DeviceState, limits: Limits) -> Unfit | None:
    least, free = limits.free_storage_mb, state.free_bytes
    if least is None or free is None or free >= least * BYTES_PER_MB:
        return None
    return Unfit(f"{free // BYTES_PER_MB} MB free, below free_storage_mb {least}: `farm clean` makes room", False)


def _low_power(state: DeviceState) -> Unfit | None:
    remedy = "`adb shell settings put global low_power 0` turns it off"
    return Unfit(f"battery saver is on, which lowers the clocks: {remedy}", False) if state.low_power else None
