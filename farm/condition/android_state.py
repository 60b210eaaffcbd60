"""Parses a phone's state from what Android's services print: battery, thermal service, power, settings. Pure.

The texts are for people and differ among versions and vendors; what is not understood is left out.
"""

import re
from collections.abc import Sequence
from typing import Any

from farm.condition.linux_state import COLDEST_C, HOTTEST_C, number

CPU, GPU, BATTERY, SKIN = range(4)  # types of the thermal service
UNKNOWN, CHARGING, FULL = 1, 2, 5  # android.os.BatteryManager
MAX_THERMAL_STATUS = 6
_TEMPERATURE = re.compile(r"mValue=(-?[\d.]+), mType=(-?\d+), mName=([^,}]{0,60})")


def state_members(dumps: dict[str, list[str]]) -> dict[str, Any]:
    """Members of a DeviceState, from the lines that each service printed.

    The services are `battery`, `thermalservice`, `power` and `low_power`.
    """
    members = _battery(dumps.get("battery", [])) | _thermal(dumps.get("thermalservice", []))
    return members | {"screen_on": _screen_on(dumps.get("power", [])), "low_power": _low_power(dumps)}


def _battery(lines: Sequence[str]) -> dict[str, Any]:
    values = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    level, scale = number(values.get("level", "")), number(values.get("scale", "")) or 100.0
    status, tenths = number(values.get("status", "")), number(values.get("temperature", ""))
    powered = [value for key, value in values.items() if key.endswith(" powered")]
    percent = None if level is None else round(100 * level / scale)
    return {
        "battery_percent": percent if percent is not None and 0 <= percent <= 100 else None,
        "charging": None if status in (None, UNKNOWN) else status in (CHARGING, FULL),
        "plugged": "true" in powered if powered else None,
        "battery_temperature_c": None if tenths is None else _plausible(tenths / 10),
    }


def _thermal(lines: Sequence[str]) -> dict[str, Any]:
    """Thermal status and temperatures; the service's cached temperatures count only where there are no current ones."""
    text = "\n".join(lines)
    status = re.search(r"Thermal Status: (\d{1,2})\b", text)
    current = re.split(r"Current temperatures from HAL", text)[-1].split("Current cooling devices")[0]
    hottest: dict[int, float] = {}
    for value, kind, _ in _TEMPERATURE.findall(current):
        celsius = _plausible(number(value))
        if celsius is not None and celsius != 0:  # sensors that are not there say 0
            hottest[int(kind)] = max(celsius, hottest.get(int(kind), COLDEST_C))
    chip = [hottest[kind] for kind in (CPU, GPU) if kind in hottest]
    return {
        "thermal_status": min(int(status[1]), MAX_THERMAL_STATUS) if status else None,
        "temperature_c": max(chip, default=None),
        "skin_temperature_c": hottest.get(SKIN),
    }


def _screen_on(lines: Sequence[str]) -> bool | None:
    text = "\n".join(lines)
    display = re.search(r"Display Power: state=(\w+)", text)
    if display:
        return display[1] == "ON"
    wakefulness = re.search(r"mWakefulness=(\w+)", text)
    return wakefulness[1] == "Awake" if wakefulness else None


def _low_power(dumps: dict[str, list[str]]) -> bool | None:
    """Whether battery saver is on; the setting is `null` until somebody changes it."""
    value = "".join(dumps.get("low_power", [])).strip()
    return {"1": True, "0": False, "null": False}.get(value)


def _plausible(celsius: float | None) -> float | None:
    return celsius if celsius is not None and COLDEST_C < celsius <= HOTTEST_C else None
