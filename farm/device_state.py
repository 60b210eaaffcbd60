"""What could spoil a measurement, read on the unit with `cat`: works on every Linux and over every transport.

A file that is not there (no frequency scaling, no sensor) leaves its figure out.
"""

from __future__ import annotations

import re

from farm.results import DeviceState
from farm.transport.base import Transport

READ_DEADLINE_S = 10.0
MAX_CORES = 16
LOAD_FILE = "/proc/loadavg"
CPU_FILE = "/proc/cpuinfo"
TEMPERATURE_FILE = "/sys/class/thermal/thermal_zone0/temp"


def read_state(transport: Transport) -> DeviceState:
    """State of the unit right now."""
    load = _read(transport, [LOAD_FILE]).split()
    temperature = _read(transport, [TEMPERATURE_FILE]).split()
    return DeviceState(
        load_average=float(load[0]) if load else None,
        clock_mhz=_clocks(transport),
        temperature_c=int(temperature[0]) / 1000 if temperature else None,
    )


def _clocks(transport: Transport) -> tuple[float, ...]:
    """Clock of each core: what the governor says, else what /proc/cpuinfo does."""
    files = [f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in range(MAX_CORES)]
    scaled = tuple(int(khz) / 1000 for khz in _read(transport, files).split())
    return scaled or tuple(float(mhz) for mhz in re.findall(r"cpu MHz\s*: ([\d.]+)", _read(transport, [CPU_FILE])))


def _read(transport: Transport, files: list[str]) -> str:
    """Contents of those files that can be read."""
    return transport.run(["cat", *files], READ_DEADLINE_S).stdout.decode(errors="replace")
