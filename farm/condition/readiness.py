"""Decides whether a unit is ready for a job, and waits until it is. Pure: reading, clock and sleep are arguments."""

import dataclasses
from collections.abc import Callable

from farm.config.inventory import Limits
from farm.rows.device_state import DeviceState
from runtime.errors import DeviceError

THERMAL_STATUS_NAMES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
MODERATE = 2  # from this thermal status on Android slows the chip down noticeably
POLL_S, MIN_SLEEP_S = 5.0, 0.01
BYTES_PER_MB = 1_000_000


@dataclasses.dataclass(frozen=True)
class Obstacle:
    """A reason why a unit is not ready for a job; a transient one may pass by itself."""

    reason: str
    is_transient: bool = True


@dataclasses.dataclass(frozen=True)
class Readiness:
    """The state of a ready unit, how long it was waited for, and why (empty: no wait)."""

    state: DeviceState
    waited_s: float = 0.0
    waited_for: str = ""


def obstacles(state: DeviceState, limits: Limits) -> list[Obstacle]:
    """Lists what keeps the unit from running a job now; a value that the unit does not tell is no obstacle."""
    candidates = [
        _heat(state, limits),
        _thermal_status(state),
        _battery(state, limits),
        _storage(state, limits),
        _low_power(state),
    ]
    return [obstacle for obstacle in candidates if obstacle]


def wait_until_ready(
    name: str,
    read: Callable[[], DeviceState],
    limits: Limits,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    say: Callable[[str], None] = lambda text: None,
) -> Readiness:
    """Waits until a unit has cooled down or charged enough, `limits.wait_s` at most.

    Args:
        name: the unit's, for messages.
        read: reads its state.
        limits: the conditions that it must meet.
        clock, sleep: in seconds.
        say: called after each reading with what is waited for, and for how long at most.

    Raises:
        DeviceError: it did not become ready in time, or waiting cannot help; the text says why.
    """
    start_s, waited_for = clock(), ""
    while True:
        state = read()
        found_obstacles = obstacles(state, limits)
        waited_s = clock() - start_s
        if not found_obstacles:
            return Readiness(state, waited_s if waited_for else 0.0, waited_for)
        reasons = ", ".join(obstacle.reason for obstacle in found_obstacles)
        if not all(obstacle.is_transient for obstacle in found_obstacles):
            raise DeviceError(f"{name}: not fit for a job: {reasons}")
        left_s = limits.wait_s - waited_s
        if left_s < MIN_SLEEP_S:
            raise DeviceError(f"{name}: not fit for a job after {waited_s:.0f} s of waiting (wait_s): {reasons}")
        waited_for = waited_for or reasons
        say(f"waiting: {reasons} ({waited_s:.0f} of at most {limits.wait_s:.0f} s)")
        sleep(min(POLL_S, left_s))


def _heat(state: DeviceState, limits: Limits) -> Obstacle | None:
    limit_c = limits.max_start_temp_c
    if limit_c is None or state.temperature_c is None or state.temperature_c <= limit_c:
        return None
    return Obstacle(f"{state.temperature_c:.1f} °C, above max_start_temp_c {limit_c:g}")


def _thermal_status(state: DeviceState) -> Obstacle | None:
    status = state.thermal_status
    return (
        Obstacle(f"thermal status {THERMAL_STATUS_NAMES[status]}")
        if status is not None and status >= MODERATE
        else None
    )


def _battery(state: DeviceState, limits: Limits) -> Obstacle | None:
    limit_percent, percent = limits.min_battery_percent, state.battery_percent
    if limit_percent is None or percent is None or percent >= limit_percent:
        return None
    reason = f"battery at {percent} %, below min_battery_percent {limit_percent}"
    if state.charging is not False:
        return Obstacle(reason)
    if state.plugged:
        remedy = "plugged in, but not charging: lift the limit that its settings put on the charge, or try another port"
        return Obstacle(f"{reason}; {remedy}", False)
    return Obstacle(f"{reason}, and it is not charging: plug it in", False)


def _storage(state: DeviceState, limits: Limits) -> Obstacle | None:
    limit_mb, free = limits.free_storage_mb, state.free_bytes
    if limit_mb is None or free is None or free >= limit_mb * BYTES_PER_MB:
        return None
    return Obstacle(f"{free // BYTES_PER_MB} MB free, below free_storage_mb {limit_mb}: `farm clean` makes room", False)


def _low_power(state: DeviceState) -> Obstacle | None:
    remedy = "`adb shell settings put global low_power 0` turns it off"
    return Obstacle(f"battery saver is on, which lowers the clocks: {remedy}", False) if state.low_power else None
