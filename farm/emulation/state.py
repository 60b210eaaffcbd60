"""The state that a phone's programs and sysfs show: temperatures, clock rates, load, battery, storage, time."""

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import Path

from farm.emulation import thermal
from farm.emulation.faults import Fault
from farm.emulation.filesystem import gpu_devfreq, read, used_bytes, write
from farm.emulation.socs import Soc
from farm.emulation.thermal import ThermalState

BATTERY = {"battery_level": "83", "battery_usb": "1"}
AWAKE = {"wakefulness": "Awake", "deviceidle": "ACTIVE"}
# Type of each thermal zone -> the temperature of ThermalState that it shows.
ZONES = {
    "adreno": {"cpu-0-0-usr": "chip_c", "gpu0-usr": "chip_c", "quiet-therm-usr": "skin_c", "battery": "battery_c"},
    "mali": {"soc_thermal": "chip_c", "gpu": "chip_c", "skin": "skin_c", "battery": "battery_c"},
    "powervr": {"mtktscpu": "chip_c", "mtktsAP": "skin_c", "mtktsbattery": "battery_c"},
}
MAX_STATUS = len(thermal.STATUS_FROM_C)


@dataclasses.dataclass(frozen=True)
class TimedOverride:
    """A value that a fault sets until the time `until_s`."""

    value: float
    until_s: float


NO_OVERRIDE = TimedOverride(0.0, 0.0)


class PhoneState:
    """Keeps the files up to date that show the phone's state.

    Args:
        folder: the folder that the phone's programs read.
        root: the phone's private folder, which holds sysfs.
    """

    def __init__(self, folder: Path, root: Path, soc: Soc, rooted: bool) -> None:
        self._folder, self._root, self._soc = folder, root, soc
        self._body = ThermalState()
        self._hot, self._throttled, self._slow = NO_OVERRIDE, NO_OVERRIDE, NO_OVERRIDE
        self._cap = 1.0
        self._strange_zones: dict[str, str] = {}
        self._denied: re.Pattern[str] | None = None
        self._written: dict[Path, str] = {}
        for name in ("records", "settings/global"):
            (folder / name).mkdir(parents=True)
        for name, value in BATTERY.items():
            write(folder / "battery_default" / name, value, 0o644)
        self._write_values({**BATTERY, **AWAKE, "rooted": str(int(rooted)), "clock_offset_s": "0"})
        self._set_saver(False)
        self.advance(0.0, 0.0, 0.0)

    def advance(self, now_s: float, elapsed_s: float, load: float) -> None:
        """Advances the thermal model by `elapsed_s` at a load (share of all cores in use); writes what changed."""
        self._body = self._body.after(elapsed_s, load, len(self._soc.cores))
        if now_s < self._hot.until_s:
            self._body = dataclasses.replace(ThermalState.at(self._hot.value), load_average=self._body.load_average)
        override = read(self._folder / "status_override")
        status = int(override) if override.isdigit() else self._body.status
        if now_s < self._throttled.until_s:
            status = int(self._throttled.value)
        status = min(status, MAX_STATUS)
        self._cap = self._body.clock_cap(status)
        self._write_temperatures(status)
        self._write_clocks(load, self._cap)
        averages = f"{self._body.load_average:.2f} " * 3
        self._write_if_changed(self._root / "proc/loadavg", f"{averages}1/{600 + len(self._soc.cores)} 4242")

    def relative_speed(self, now_s: float) -> float:
        """The phone's computing speed as a share of its full speed, 0 to 1."""
        return self._cap / (self._slow.value if now_s < self._slow.until_s else 1.0)

    def apply_fault(self, fault: Fault, now_s: float) -> None:
        """Carries out a fault of the phone's state."""
        values = fault.values
        until_s = now_s + (math.inf if values.get("for", 0.0) is None else values.get("for", 0.0))
        match fault.name:
            case "hot":
                self._body, self._hot = ThermalState.at(values["temp"]), TimedOverride(values["temp"], until_s)
            case "throttle":
                self._throttled = TimedOverride(values["status"], until_s)
            case "slow":
                self._slow = TimedOverride(values["factor"], until_s)
            case "sensor":
                self._strange_zones[values["zone"]] = values["shows"]
            case "asleep":
                self._write_values({"wakefulness": "Asleep"})
            case "doze":
                self._write_values({"wakefulness": "Asleep", "deviceidle": "IDLE"})
            case "battery":
                self._write_values({"battery_level": str(values["level"]), "battery_usb": str(int(values["charging"]))})
                self._set_saver(values["saver"])
            case "clock":
                offset_s = int(read(self._folder / "clock_offset_s") or 0)
                self._write_values({"clock_offset_s": str(offset_s + round(values["jump"]))})
            case "denied":
                self._deny(values["files"])
            case "storage":
                self._write_values({"storage_limit_bytes": str(used_bytes(self._root) + values["free"])})
        self.advance(now_s, 0.0, 0.0)

    def reset(self) -> None:
        """Ends all faults: the phone is cool, charged, has free storage and shows the right time."""
        self._body = ThermalState()
        self._hot, self._throttled, self._slow = NO_OVERRIDE, NO_OVERRIDE, NO_OVERRIDE
        self._strange_zones = {}
        self._write_values({**BATTERY, **AWAKE, "clock_offset_s": "0"})
        self._set_saver(False)
        (self._folder / "storage_limit_bytes").unlink(missing_ok=True)
        self.advance(0.0, 0.0, 0.0)

    def _deny(self, files: str | re.Pattern[str]) -> None:
        """Refuses the content of files, by their paths from the root, now and when they are written anew."""
        self._denied = re.compile(files)
        for path in self._root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(self._mode(path, path.stat().st_mode))

    def _mode(self, path: Path, mode: int) -> int:
        return 0 if self._denied and self._denied.search(str(path.relative_to(self._root))) else mode

    def _set_saver(self, on: bool) -> None:
        """Sets battery saver, which Android calls low power mode."""
        write(self._folder / "settings/global/low_power", str(int(on)), 0o644)

    def log(self, line: str) -> None:
        """Adds a line to what `logcat` shows."""
        with (self._folder / "log").open("a") as file:
            file.write(f"11-26 12:00:00.000  1000  1234  5678 {line}\n")

    def free_bytes(self) -> int | None:
        """How many bytes can still be written; None without a limit."""
        limit = read(self._folder / "storage_limit_bytes")
        return max(int(limit) - used_bytes(self._root), 0) if limit else None

    def take_reboot_request(self) -> bool:
        """Whether the phone's program `reboot` was called since the last call of this."""
        request = self._folder / "reboot"
        requested = request.exists()
        request.unlink(missing_ok=True)
        return requested

    def _write_values(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            write(self._folder / name, value, 0o644)

    def _write_temperatures(self, status: int) -> None:
        self._write_if_changed(self._folder / "thermal_status", str(status))
        for part in ("chip", "skin", "battery"):
            self._write_if_changed(self._folder / f"{part}_mc", str(_milli(getattr(self._body, f"{part}_c"))))
        for number, (kind, part) in enumerate(ZONES[self._soc.gpu.maker].items()):
            zone = self._root / f"sys/class/thermal/thermal_zone{number}"
            self._write_if_changed(zone / "type", kind)
            if self._strange_zones.get(kind) != "still" or zone / "temp" not in self._written:
                self._write_if_changed(zone / "temp", self._zone_text(kind, part))

    def _zone_text(self, kind: str, part: str) -> str:
        """What a zone shows: a part's temperature, or by a fault the battery's charge."""
        if self._strange_zones.get(kind) == "charge":
            return str(1000 * int(read(self._folder / "battery_level")))
        return str(_milli(getattr(self._body, part)))

    def _write_clocks(self, load: float, cap: float) -> None:
        for core, cluster in enumerate(self._soc.cores):
            folder = self._root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
            governor = read(folder / "scaling_governor")
            khz = thermal.clock(governor, cluster.min_khz, cluster.max_khz, load, cap)
            self._write_if_changed(folder / "scaling_cur_freq", str(khz))
        gpu, devfreq = self._soc.gpu, gpu_devfreq(self._root, self._soc)
        if gpu.maker == "powervr":
            khz = thermal.clock("simple_ondemand", gpu.min_hz, gpu.max_hz, load, cap) // 1000
            self._write_if_changed(self._root / "sys" / gpu.folder / "current_freqency", f"12 {khz}")
            return
        hertz = str(thermal.clock(read(devfreq / "governor"), gpu.min_hz, gpu.max_hz, load, cap))
        self._write_if_changed(devfreq / "cur_freq", hertz)
        if gpu.maker == "adreno":
            self._write_if_changed(devfreq.parent / "gpuclk", hertz)

    def _write_if_changed(self, path: Path, text: str) -> None:
        if self._written.get(path) != text:
            write(path, text, self._mode(path, 0o444) if path.is_relative_to(self._root) else 0o444)
            self._written[path] = text


def _milli(celsius: float) -> int:
    """Converts degrees to millidegrees, in steps of a tenth of a degree, as sensors do."""
    return round(celsius * 10) * 100
