"""Reads the state of a unit that can affect a measurement, with one small script for every shell and transport.

The script prints what it finds and skips what the unit does not have (frequency scaling, a sensor, Android).
"""

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from farm.condition import android_state, linux_state
from farm.rows.device_state import DeviceState
from farm.transport import storage
from farm.transport.base import Transport

READ_DEADLINE_S = 30.0
MAX_LINE = 300
MAX_LINES = 5000

# What changes while a model runs.
VOLATILE_SCRIPT = r"""
show() {
  for file in "$@"; do
    value=
    { read -r value <"$file" || [ "$value" ]; } 2>/dev/null && echo "file $file=$value"
  done
}
dump() { while read -r line; do echo "$1 $line"; done; }
cpu=/sys/devices/system/cpu
show /proc/loadavg /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp \
  /sys/class/thermal/cooling_device*/type /sys/class/thermal/cooling_device*/cur_state \
  $cpu/cpu[0-9]*/cpufreq/scaling_cur_freq $cpu/cpu[0-9]*/cpufreq/scaling_max_freq \
  /sys/class/devfreq/*/cur_freq /sys/class/kgsl/kgsl-3d0/gpuclk \
  /sys/kernel/gpu/gpu_clock /sys/devices/platform/*.mali/cur_freq \
  /sys/class/misc/mali0/device/devfreq/*/cur_freq /sys/kernel/ged/hal/current_freqency
[ -e $cpu/cpu0/cpufreq ] || grep '^cpu MHz' /proc/cpuinfo 2>/dev/null | dump mhz
if command -v dumpsys >/dev/null; then
  dumpsys thermalservice 2>/dev/null | grep -E 'Thermal Status:|Temperature\{|Current .*HAL' | dump thermalservice
fi
"""
# The rest.
STEADY_SCRIPT = r"""
show $cpu/cpu[0-9]*/cpufreq/scaling_governor /sys/class/devfreq/*/governor \
  /sys/class/power_supply/*/type /sys/class/power_supply/*/capacity \
  /sys/class/power_supply/*/status /sys/class/power_supply/*/temp \
  /sys/class/power_supply/*/scope /sys/class/power_supply/*/online
grep '^MemAvailable:' /proc/meminfo 2>/dev/null | dump memory
echo "free $(df -k . 2>/dev/null | tail -n 1)"
if command -v dumpsys >/dev/null; then
  dumpsys battery 2>/dev/null | grep -E '^ *(level|scale|status|temperature|[A-Za-z]+ powered):' | dump battery
  dumpsys power 2>/dev/null | grep -E 'mWakefulness=|Display Power: state=' | dump power
  settings get global low_power 2>/dev/null | dump low_power
fi
"""


def read_state(transport: Transport, ignored: Collection[str] = ()) -> DeviceState:
    """Reads the whole state of the unit, but thermal zones of the types `ignored`."""
    return parse(_read(transport, VOLATILE_SCRIPT + STEADY_SCRIPT), ignored)


def read_conditions(transport: Transport, ignored: Collection[str] = ()) -> DeviceState:
    """Reads what changes while a model runs (temperature, clocks, thermal status): cheap enough for each sample."""
    return parse(_read(transport, VOLATILE_SCRIPT), ignored)


@dataclasses.dataclass(frozen=True)
class Sensors:
    """The kernel's files that tell of heat and clocks, by path, and the state that was made of them."""

    files: Mapping[str, str]
    state: DeviceState


def read_sensors(transport: Transport) -> Sensors:
    """Reads the whole state of the unit, and keeps what it was made of."""
    output = _read(transport, VOLATILE_SCRIPT + STEADY_SCRIPT)
    return Sensors(_parts(output)[0], parse(output))


def _read(transport: Transport, script: str) -> str:
    return transport.run(["sh", "-c", f"{script}exit 0"], READ_DEADLINE_S).stdout.decode(errors="replace")


def parse(output: str, ignored: Collection[str] = ()) -> DeviceState:
    """Parses the script's output; Android's values override the kernel's, except for the chip's temperature."""
    files, dumps = _parts(output)
    kernel, android = linux_state.state_members(files, ignored), android_state.state_members(dumps)
    members = kernel | _without_none(android)
    if kernel["temperature_c"] is not None:
        members["temperature_c"] = kernel["temperature_c"]
    return DeviceState(
        **members,
        free_bytes=storage.free_bytes("".join(dumps.get("free", []))),
        free_memory_bytes=linux_state.free_memory_bytes("".join(dumps.get("memory", []))),
    )


def _parts(output: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Files by path, and the lines of each service."""
    files: dict[str, str] = {}
    dumps: dict[str, list[str]] = {}
    cores = 0
    for kind, text in _lines(output):
        if kind == "file":
            path, _, value = text.partition("=")
            files[path] = value
        elif kind == "mhz":
            files[f"cpu MHz {cores}"] = text.rpartition(":")[2]
            cores += 1
        else:
            dumps.setdefault(kind, []).append(text)
    return files, dumps


def _lines(output: str) -> Iterator[tuple[str, str]]:
    """Yields kind and text of each line."""
    for line in output.split("\n")[:MAX_LINES]:
        kind, _, text = line[:MAX_LINE].partition(" ")
        yield kind, text


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
