"""Waiting until a unit is fit, and what to do with samples that heat has spoiled."""

import dataclasses
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.condition.readiness import obstacles, wait_until_ready
from farm.condition.throttling import RetryPolicy, measure_unthrottled, throttling_cause
from farm.config.inventory import Limits
from farm.rows.device_state import DeviceState
from runtime.errors import DeviceError

COOL = DeviceState(temperature_c=30.0, thermal_status=0, battery_percent=90, charging=True, free_bytes=10**9)
LIMITS = Limits(max_start_temp_c=40.0, min_battery_percent=20, free_storage_mb=100, wait_s=600.0)


class SimulatedUnit:
    """Time that passes only by sleeping, in which a unit changes as the states say."""

    def __init__(self, *states: DeviceState) -> None:
        self.now_s = 100.0
        self.messages: list[str] = []
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
        return wait_until_ready("pixel", self.read, limits, self.clock, self.sleep, self.messages.append)


def changed(**members: object) -> DeviceState:
    return COOL.model_copy(update=members)


def test_a_ready_unit_starts_at_once() -> None:
    room = SimulatedUnit(COOL)
    assert dataclasses.astuple(room.wait()) == (COOL, 0.0, "")  # type: ignore[call-overload]
    assert (room.messages, room.now_s) == ([], 100.0)


def test_a_hot_unit_is_waited_for_with_a_visible_reason() -> None:
    room = SimulatedUnit(changed(temperature_c=48.25), changed(temperature_c=41.0), COOL)
    assert dataclasses.astuple(room.wait()) == (COOL, 10.0, "48.2 °C, above max_start_temp_c 40")  # type: ignore[call-overload]
    assert room.messages[0] == "waiting: 48.2 °C, above max_start_temp_c 40 (0 of at most 600 s)"
    assert len(room.messages) == 2


def test_waiting_ends_after_wait_s() -> None:
    room = SimulatedUnit(changed(temperature_c=48.0))
    with pytest.raises(DeviceError, match=r"pixel: not fit for a job after 600 s of waiting \(wait_s\): 48.0 °C"):
        room.wait()
    assert room.now_s == 700.0


def test_several_reasons_are_told_together() -> None:
    room = SimulatedUnit(changed(temperature_c=48.0, thermal_status=3, battery_percent=10), COOL)
    room.wait()
    assert (
        "48.0 °C, above" in room.messages[0]
        and "thermal status severe" in room.messages[0]
        and "10 %" in room.messages[0]
    )


@pytest.mark.parametrize("charging", [True, None])
def test_a_battery_that_may_charge_is_waited_for(charging: bool | None) -> None:
    room = SimulatedUnit(changed(battery_percent=19, charging=charging), COOL)
    room.wait()
    assert "battery at 19 %, below min_battery_percent 20 (" in room.messages[0]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"battery_percent": 10, "charging": False}, "battery at 10 %.*not charging: plug it in"),
        (
            {"battery_percent": 10, "charging": False, "plugged": True},
            "battery at 10 %.*plugged in, but not.*lift the l",
        ),
        ({"free_bytes": 5_000_000}, "5 MB free, below free_storage_mb 100: `farm clean`"),
        ({"low_power": True}, "battery saver is on"),
    ],
)
def test_an_obstacle_that_does_not_pass_by_itself_is_an_error_at_once(members: dict[str, object], words: str) -> None:
    room = SimulatedUnit(changed(**members))
    with pytest.raises(DeviceError, match=words):
        room.wait()
    assert room.now_s == 100.0


def test_without_limits_only_throttling_and_battery_saver_count() -> None:
    hot = changed(temperature_c=90.0, battery_percent=1, charging=False, free_bytes=1)
    assert obstacles(hot, Limits()) == []
    assert obstacles(changed(thermal_status=1), Limits()) == []
    assert [each.reason for each in obstacles(changed(thermal_status=2), Limits())] == ["thermal status moderate"]


def test_a_unit_that_tells_no_values_is_ready() -> None:
    assert obstacles(DeviceState(), LIMITS) == []


@pytest.mark.slow
@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0, 100), st.floats(0, 100))
def test_waiting_ends_in_time_whatever_the_states(temperatures: list[float], most_c: float, wait_s: float) -> None:
    room = SimulatedUnit(*(changed(temperature_c=value) for value in temperatures))
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

BIG_LITTLE, LITTLE = changed(clock_limit_mhz=(1700.0, 1700.0, 2800.0, 2800.0)), changed(clock_limit_mhz=(1700.0,) * 2)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (COOL, COOL, ""),
        (COOL, SLOWED, "thermal status severe"),
        (SLOWED, COOL, "thermal status severe"),
        (COOL, changed(thermal_status=1), ""),
        (COOL, changed(cooling_steps={"0": 2}), r"the kernel slows the chip down \(step 2\)"),
        (changed(cooling_steps={"0": 1}), changed(cooling_steps={"0": 2}), r"slows the chip down \(step 2\)"),
        (changed(cooling_steps={"1": 5}), changed(cooling_steps={"0": 2, "1": 5}), r"slows the chip down \(step 2\)"),
        (changed(cooling_steps={"0": 2}), changed(cooling_steps={"0": 2}), ""),  # a step that it never leaves
        (changed(cooling_steps={"0": 2}), changed(cooling_steps={"0": 1}), ""),
        (changed(clock_limit_mhz=(2800.0, 2800.0)), LIMITED, "core 1 was limited to 1766 of 2800 MHz"),
        (LIMITED, LIMITED, ""),  # so low from the start: the user's wish or the vendor's
        (LIMITED, changed(clock_limit_mhz=(2800.0, 2800.0)), ""),
        (DeviceState(), DeviceState(), ""),
        (BIG_LITTLE, LITTLE, "core 2 and all others of 2800 MHz went offline"),
        (BIG_LITTLE, changed(clock_limit_mhz=(1700.0, 1700.0, 0.0, 2800.0)), ""),  # one idles
        (BIG_LITTLE, changed(clock_limit_mhz=(0.0, 1700.0, 2800.0, 2800.0)), ""),
        (BIG_LITTLE, changed(clock_limit_mhz=(0.0, 1700.0, 0.0, 2000.0)), "core 3 was limited to 2000 of 2800 MHz"),
        (BIG_LITTLE, changed(clock_limit_mhz=(0.0, 0.0, 2800.0, 2800.0)), "core 0 and all others of 1700 MHz went"),
        (LITTLE, BIG_LITTLE, ""),
        (BIG_LITTLE, DeviceState(), ""),
    ],
)
def test_what_counts_as_throttled(before: DeviceState, after: DeviceState, words: str) -> None:
    reason = throttling_cause(before, after)
    if words:
        assert re.search(words, reason)
    else:
        assert reason == ""


def measure_with_retries(room: SimulatedUnit, times: int) -> tuple[list[int], object]:
    samples: list[int] = []

    def measure() -> int:
        samples.append(len(samples))
        return samples[-1]

    return samples, measure_unthrottled(measure, room.read, room.sleep, RetryPolicy(times, 30.0), room.messages.append)


def test_a_good_sample_is_measured_once() -> None:
    taken, found = measure_with_retries(SimulatedUnit(COOL), 2)
    assert (taken, found.cause, found.repeats) == ([0], "", 0)  # type: ignore[attr-defined]


def test_a_throttled_sample_is_measured_again_after_a_rest() -> None:
    room = SimulatedUnit(COOL, SLOWED, COOL, COOL)
    taken, found = measure_with_retries(room, 2)
    assert (taken, found.value, found.cause, found.repeats) == ([0, 1], 1, "", 1)  # type: ignore[attr-defined]
    assert room.now_s == 130.0 and "rests 30 s, then measured again (1 of 2)" in room.messages[0]


@given(st.integers(0, 5))
def test_a_unit_that_stays_hot_is_repeated_max_repeats_times_and_marked(times: int) -> None:
    room = SimulatedUnit(SLOWED)
    taken, found = measure_with_retries(room, times)
    assert len(taken) == times + 1
    assert (found.value, found.cause, found.repeats) == (times, "thermal status severe", times)  # type: ignore[attr-defined]
    assert room.now_s == 100.0 + 30.0 * times
