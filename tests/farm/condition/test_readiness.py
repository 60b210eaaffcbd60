"""Waiting until a unit is fit, and what to do with samples that heat has spoiled."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.condition.readiness import unfit, wait_until_fit
from farm.condition.throttling import Rest, measured, throttled
from farm.config.inventory import Limits
from farm.rows.device_state import DeviceState
from runtime.errors import DeviceError

COOL = DeviceState(temperature_c=30.0, thermal_status=0, battery_percent=90, charging=True, free_bytes=10**9)
LIMITS = Limits(max_start_temp_c=40.0, min_battery_percent=20, free_storage_mb=100, wait_s=600.0)


class Room:
    """Time that passes only by sleeping, in which a unit changes as the states say."""

    def __init__(self, *states: DeviceState) -> None:
        self.now_s = 100.0
        self.said: list[str] = []
        self._states: Iterator[DeviceState] = iter(states)
        self._last = states[-1]

    def read(self) -> DeviceState:
        return next(self._states, self._last)

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0.01
        self.now_s += seconds

    def wait(self, limits: Limits = LIMITS) -> object:
        return wait_until_fit("pixel", self.read, limits, self.clock, self.sleep, self.said.append)


def changed(**members: object) -> DeviceState:
    return COOL.model_copy(update=members)


def test_a_fit_unit_starts_at_once() -> None:
    room = Room(COOL)
    assert dataclasses.astuple(room.wait()) == (COOL, 0.0, "")  # type: ignore[call-overload]
    assert (room.said, room.now_s) == ([], 100.0)


def test_a_hot_unit_is_waited_for_with_a_visible_reason() -> None:
    room = Room(changed(temperature_c=48.25), changed(temperature_c=41.0), COOL)
    assert dataclasses.astuple(room.wait()) == (COOL, 10.0, "48.2 °C, above max_start_temp_c 40")  # type: ignore[call-overload]
    assert room.said[0] == "waiting: 48.2 °C, above max_start_temp_c 40 (0 of at most 600 s)"
    assert len(room.said) == 2


def test_waiting_has_a_limit() -> None:
    room = Room(changed(temperature_c=48.0))
    with pytest.raises(DeviceError, match=r"pixel: not fit for a job after 600 s of waiting \(wait_s\): 48.0 °C"):
        room.wait()
    assert room.now_s == 700.0


def test_several_reasons_are_told_together() -> None:
    room = Room(changed(temperature_c=48.0, thermal_status=3, battery_percent=10), COOL)
    room.wait()
    assert "48.0 °C, above" in room.said[0] and "thermal status severe" in room.said[0] and "10 %" in room.said[0]


@pytest.mark.parametrize("charging", [True, None])
def test_a_battery_that_may_charge_is_waited_for(charging: bool | None) -> None:
    room = Room(changed(battery_percent=19, charging=charging), COOL)
    room.wait()
    assert "battery at 19 %, below min_battery_percent 20 (" in room.said[0]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"battery_percent": 10, "charging": False}, "battery at 10 %.*plug it in"),
        ({"free_bytes": 5_000_000}, "5 MB free, below free_storage_mb 100: `farm clean`"),
        ({"low_power": True}, "battery saver is on"),
    ],
)
def test_what_does_not_pass_by_itself_is_not_waited_for(members: dict[str, object], words: str) -> None:
    room = Room(changed(**members))
    with pytest.raises(DeviceError, match=words):
        room.wait()
    assert room.now_s == 100.0


def test_without_limits_only_throttling_and_battery_saver_count() -> None:
    hot = changed(temperature_c=90.0, battery_percent=1, charging=False, free_bytes=1)
    assert unfit(hot, Limits()) == []
    assert unfit(changed(thermal_status=1), Limits()) == []
    assert [each.reason for each in unfit(changed(thermal_status=2), Limits())] == ["thermal status moderate"]


def test_a_unit_that_tells_nothing_is_fit() -> None:
    assert unfit(DeviceState(), LIMITS) == []


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=30),
    st.floats(0, 100),
    st.floats(0, 100),
)
def test_whatever_the_weather_waiting_ends_in_time(temperatures: list[float], most_c: float, wait_s: float) -> None:
    room = Room(*(changed(temperature_c=value) for value in temperatures))
    limits = Limits(max_start_temp_c=most_c, wait_s=wait_s)
    try:
        fit = room.wait(limits)
        assert fit.state.temperature_c <= most_c  # type: ignore[attr-defined]
    except DeviceError:
        assert temperatures[-1] > most_c or room.now_s - 100.0 >= wait_s - 0.011
    assert room.now_s - 100.0 <= wait_s + 1e-6


# --- throttled samples -------------------------------------------------------------------------

SLOWED = changed(thermal_status=3)
LIMITED = changed(clock_limit_mhz=(2800.0, 1766.0))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (COOL, COOL, ""),
        (COOL, SLOWED, "thermal status severe"),
        (SLOWED, COOL, "thermal status severe"),
        (COOL, changed(thermal_status=1), ""),
        (COOL, changed(cooling=2), r"the kernel slows the chip down \(step 2\)"),
        (changed(clock_limit_mhz=(2800.0, 2800.0)), LIMITED, "core 1 was limited to 1766 of 2800 MHz"),
        (LIMITED, LIMITED, ""),  # so low from the start: the user's wish or the vendor's
        (LIMITED, changed(clock_limit_mhz=(2800.0, 2800.0)), ""),
        (DeviceState(), DeviceState(), ""),
    ],
)
def test_what_counts_as_throttled(before: DeviceState, after: DeviceState, words: str) -> None:
    reason = throttled(before, after)
    if words:
        assert re.search(words, reason)
    else:
        assert reason == ""


def take(room: Room, times: int) -> tuple[list[int], object]:
    taken: list[int] = []

    def measure() -> int:
        taken.append(len(taken))
        return taken[-1]

    return taken, measured(measure, room.read, room.sleep, Rest(times, 30.0), room.said.append)


def test_a_good_sample_is_taken_once() -> None:
    taken, found = take(Room(COOL), 2)
    assert (taken, found.throttled, found.repeats) == ([0], "", 0)  # type: ignore[attr-defined]


def test_a_throttled_sample_is_measured_again_after_a_rest() -> None:
    room = Room(COOL, SLOWED, COOL, COOL)
    taken, found = take(room, 2)
    assert (taken, found.value, found.throttled, found.repeats) == ([0, 1], 1, "", 1)  # type: ignore[attr-defined]
    assert room.now_s == 130.0 and "rests 30 s, then measured again (1 of 2)" in room.said[0]


@given(st.integers(0, 5))
def test_a_unit_that_stays_hot_is_measured_so_often_and_then_marked(times: int) -> None:
    room = Room(SLOWED)
    taken, found = take(room, times)
    assert len(taken) == times + 1
    assert (found.value, found.throttled, found.repeats) == (times, "thermal status severe", times)  # type: ignore[attr-defined]
    assert room.now_s == 100.0 + 30.0 * times
