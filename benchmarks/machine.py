"""What the figures were measured on: machine, drivers, versions."""

import os
import platform
import re
import time
from pathlib import Path

from benchmarks.engines import cores
from benchmarks.figures import Driver, Machine
from farm.config.inventory import HOST
from farm.farmrt import drivers
from farm.jobs.fleet.opening import open_unit
from farm.rows.row import versions

OS_RELEASE = Path("/etc/os-release")
OS_NAME = r'^PRETTY_NAME="?([^"\n]+)'
CPU_TIMES = Path("/proc/stat")
CPU_INFO = Path("/proc/cpuinfo")
CPU_NAME = r"^model name\s*:\s*(.+)$"


def machine() -> Machine:
    return Machine(
        cpu=_first(CPU_NAME, CPU_INFO) or platform.machine(),
        cores=cores(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{_first(OS_NAME, OS_RELEASE) or platform.system()}, Linux {platform.release()}",
        versions=versions(),
    )


class Others:
    """Watches how much of the machine other work takes, other virtual machines included."""

    def __init__(self) -> None:
        self._start_s, self._start_cpu_s = time.monotonic(), _others_cpu_s()

    def cores(self) -> float:
        """Cores kept busy since the start, on average."""
        return max(_others_cpu_s() - self._start_cpu_s, 0.0) / max(time.monotonic() - self._start_s, 1.0)


def _others_cpu_s() -> float:
    """CPU time since the machine's start that is neither idle nor of this process and its children that ended."""
    own = os.times()
    own_s = own.user + own.system + own.children_user + own.children_system
    return busy_ticks(CPU_TIMES.read_text()) / os.sysconf("SC_CLK_TCK") - own_s


def busy_ticks(stat: str) -> int:
    """Of all cores, from the first line of /proc/stat; a guest's time is part of `user` already."""
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(int, stat.split()[1:9])
    return user + nice + system + interrupts + soft_interrupts + stolen


def described(driver: drivers.Driver) -> Driver:
    """What farmrt's probe says of a driver."""
    with open_unit(HOST, str(driver.path)) as opened:
        opencl = opened.probe.opencl
    assert opencl.device, f"{driver.path}: no device"
    version = " ".join((opencl.platform_version or "").split())
    return Driver(origin=driver.origin, name=driver.name, version=version, device=opencl.device.name)


def _first(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text() if path.is_file() else "", re.MULTILINE)
    return match[1].strip() if match else ""
