"""Parses a unit's state from the kernel's files in /proc and /sys, the same on phones and boards. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from farm import safe_text

MAX_CORES = 256
KHZ_PER_MHZ, HZ_PER_MHZ = 1000, 1_000_000
MOST_GPU_MHZ, MOST_GPU_KHZ = 10_000, 10_000_000
COLDEST_C, HOTTEST_C = -40.0, 150.0
# Zones in which vendors show a battery's charge, voltage or current: `soc` alone is a state of charge in percent.
BATTERY_ZONE = re.compile(r"^socd?$|(^|[-_])(bcl|vbat|ibat|vph|batt?|battery|bms)", re.I)
CHIP_ZONE = re.compile(
    r"cpu|gpu|g3d|soc|cluster|little|mid|big|tsens|x86_pkg|core|mali|exynos|(^|[-_])ap([-_]|$)|acpitz", re.I
)
COOLING_DEVICE = re.compile(r"cpufreq|devfreq|^cpu|gpu|^processor", re.I)
GPU = re.compile(r"gpu|mali|kgsl|sgx|rogue|pvr|panfrost|etnaviv|v3d", re.I)


def state_members(files: Mapping[str, str], ignored: Collection[str] = ()) -> dict[str, Any]:
    """Members of a DeviceState, from path -> first line of each file (tests put a folder before `/sys`).

    `ignored`: types of thermal zones that are no heat of the chip.
    """
    load = files_of(files, r"/proc/loadavg").values()
    steps = _cooling_steps(files)
    policies = {int(core): text for core, text in files_of(files, r"/cpu(\d+)/cpufreq/scaling_governor").items()}
    return {
        "load_average": next((number(text.split()[0]) for text in load if text.split()), None),
        "clock_mhz": _clocks(files, "scaling_cur_freq") or _by_core(files_of(files, r"cpu MHz (\d+)")),
        "clock_limit_mhz": _clocks(files, "scaling_max_freq"),
        "gpu_clock_mhz": _gpu_clock_mhz(files),
        "temperature_c": max(heat_zones(files, ignored).values(), default=None),
        "cooling": max(steps.values(), default=None),
        "cooling_steps": {device: step for device, step in steps.items() if step},
        "governors": _core_governors(policies) | _gpu_governor(files),
    } | _battery(files)


def files_of(files: Mapping[str, str], pattern: str) -> dict[str, str]:
    """Finds files whose path ends with the pattern; returns its first group (or the match) -> the file's content."""
    matches = ((re.search(rf"{pattern}$", path), text) for path, text in files.items())
    return {match[match.lastindex or 0]: text for match, text in matches if match}


def number(text: str) -> float | None:
    """Parses a decimal number without an exponent; None for anything else."""
    return float(text) if re.fullmatch(r"-?\d{1,15}(\.\d{1,9})?", text.strip()) else None


def celsius(text: str) -> float | None:
    """Parses a temperature in thousandths of a degree, on some kernels tenths or whole ones; None if impossible."""
    value = number(text)
    if value is None:
        return None
    value = value / 1000 if abs(value) >= 1000 else value / 10 if abs(value) > HOTTEST_C else value
    return value if COLDEST_C < value <= HOTTEST_C else None


def free_memory_bytes(line: str) -> int | None:
    """Parses what programs may still take from the line `MemAvailable: N kB` of /proc/meminfo."""
    columns = line.split()
    kib = number(columns[1]) if len(columns) > 1 else None
    return None if kib is None or kib < 0 else int(kib) * 1024


def _clocks(files: Mapping[str, str], name: str) -> tuple[float, ...]:
    return _by_core(files_of(files, rf"/cpu(\d+)/cpufreq/{name}"), KHZ_PER_MHZ)


def _by_core(texts: Mapping[str, str], divisor: int = 1) -> tuple[float, ...]:
    """The numbers of all cores divided by `divisor`, at the cores' places; 0 for one that is offline."""
    numbers = {int(core): value for core, text in texts.items() if (value := number(text)) is not None}
    return tuple(numbers.get(core, 0.0) / divisor for core in range(min(max(numbers, default=-1) + 1, MAX_CORES)))


# Qualcomm, Exynos, Pixel, Arm's own driver, MediaTek (whose name is spelt so, with an index before the clock).
_GPU_CLOCKS = (
    r"/kgsl-3d0/gpuclk|/sys/kernel/gpu/gpu_clock|\.mali/cur_freq|/mali0/device/devfreq/[^/]+/cur_freq|"
    r"/ged/hal/current_freqency"
)


def _gpu_clock_mhz(files: Mapping[str, str]) -> float | None:
    clocks = _gpu_files(files, "cur_freq") | files_of(files, f"(?:{_GPU_CLOCKS})")
    return max(
        (value for text in clocks.values() if (value := _megahertz(text.split()[-1:])) is not None), default=None
    )


def _megahertz(words: Sequence[str]) -> float | None:
    """A GPU's clock, which kernels write in Hz, kHz or MHz; None where it is none."""
    value = number(words[0]) if words else None
    if not value or value < 0:
        return None
    return value / HZ_PER_MHZ if value >= MOST_GPU_KHZ else value / KHZ_PER_MHZ if value >= MOST_GPU_MHZ else value


def _gpu_files(files: Mapping[str, str], name: str) -> dict[str, str]:
    contents = files_of(files, rf"/devfreq/([^/]+)/{name}")
    return {place: text for place, text in contents.items() if GPU.search(place)}


def _gpu_governor(files: Mapping[str, str]) -> dict[str, str]:
    governors = list(_gpu_files(files, "governor").values())
    return {"gpu": safe_text.word(governors[0])} if governors else {}


def _core_governors(governors: Mapping[int, str]) -> dict[str, str]:
    """Groups neighbouring cores of one governor: `{"cpu0-3": "schedutil", "cpu4-7": "performance"}`."""
    ranges: dict[str, str] = {}
    cores = sorted(governors.items())[:MAX_CORES]
    for name, group in groupby(cores, key=lambda item: item[1]):
        numbers = [core for core, _ in group]
        span = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
        ranges[f"cpu{span}"] = safe_text.word(name)
    return ranges


def heat_zones(files: Mapping[str, str], ignored: Collection[str] = ()) -> dict[str, float]:
    """The temperatures that count as the chip's, by type of zone: those whose type names it, else the first zone's.

    A zone that says 0 has no sensor, or one that is off.
    """
    types = files_of(files, r"/thermal_zone(\d+)/type")
    found = {int(zone): celsius(text) for zone, text in files_of(files, r"/thermal_zone(\d+)/temp").items()}
    zones = [(types.get(str(zone), ""), value) for zone, value in sorted(found.items()) if value]
    zones = [(kind, value) for kind, value in zones if not BATTERY_ZONE.search(kind) and kind not in ignored]
    chip = [(kind, value) for kind, value in zones if CHIP_ZONE.search(kind)] or zones[:1]
    return {kind: max(value for other, value in chip if other == kind) for kind, _ in chip}


def _cooling_steps(files: Mapping[str, str]) -> dict[str, int]:
    types = files_of(files, r"/cooling_device(\d+)/type")
    steps = {device: number(text) for device, text in files_of(files, r"/cooling_device(\d+)/cur_state").items()}
    return {
        device: int(step)
        for device, step in steps.items()
        if step is not None and COOLING_DEVICE.search(types.get(device, ""))
    }


def _battery(files: Mapping[str, str]) -> dict[str, Any]:
    """Members of the first power supply that is the machine's battery, not a mouse's; laptops and phones have one."""
    types, scopes = (files_of(files, rf"/power_supply/([^/]+)/{name}") for name in ("type", "scope"))
    online = files_of(files, r"/power_supply/([^/]+)/online")
    mains = [name for name, kind in types.items() if kind != "Battery" and scopes.get(name) != "Device"]
    for name in (name for name, kind in types.items() if kind == "Battery" and scopes.get(name) != "Device"):
        values = {key: files_of(files, rf"/power_supply/{re.escape(name)}/{key}") for key in _BATTERY_FILES}
        capacity, status, temperature = (next(iter(contents.values()), "") for contents in values.values())
        percent, tenths = number(capacity), number(temperature)
        return {
            "battery_percent": int(percent) if percent is not None and 0 <= percent <= 100 else None,
            "charging": status in ("Charging", "Full") if status and status != "Unknown" else None,
            "plugged": any(online.get(name) not in (None, "0") for name in mains) if online else None,
            "battery_temperature_c": celsius(str(tenths * 100)) if tenths is not None else None,
        }
    return {}


_BATTERY_FILES = ("capacity", "status", "temp")
