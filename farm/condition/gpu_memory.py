"""How much memory a GPU's driver holds for a process, from whoever tells: kernel drivers' files, Android's dumpsys."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from farm.transport import Transport

DEADLINE_S = 30.0
KIB = 1024

# Qualcomm's kgsl counts for each process, at its highest in newer kernels; Arm's kbase likewise; drivers of DRM in the
# fdinfo of each file (Documentation/gpu/drm-usage-stats.rst); Android's memtrack speaks through dumpsys.
SCRIPT = """
pid=$1
first() { for file; do read -r value < "$file" && echo "$name $value" && return; done 2>/dev/null; return 1; }
name=kgsl
first /sys/class/kgsl/kgsl/proc/$pid/kernel_max /sys/class/kgsl/kgsl/proc/$pid/kernel && exit
name=mali
first /sys/class/misc/mali0/device/kprcs/$pid/total_gpu_mem && exit
for file in /proc/$pid/fdinfo/*; do
    [ -r "$file" ] && { grep "^drm-" "$file"; echo; }
done 2>/dev/null
[ -d /system/bin ] && dumpsys meminfo "$pid" 2>/dev/null | grep -E "mtrack|Gfx dev"
exit 0
"""
_METERS = re.compile(r"^\s*(?:Gfx dev|EGL mtrack|GL mtrack)\s+(\d{1,12})\b", re.MULTILINE)
_DRM_SIZE = re.compile(r"^drm-(total|resident|memory)-\S+?:\s*(\d{1,15})(?: (KiB|MiB))?$")
_SCALES = {None: 1, "KiB": KIB, "MiB": KIB**2}


@dataclasses.dataclass(frozen=True)
class GpuMemory:
    """Bytes, and who said so; None where nobody does."""

    size_bytes: int | None = None
    source: str = ""


def read_gpu_memory(transport: Transport, process: int) -> GpuMemory:
    """Asks the unit what its GPU's driver holds for a process."""
    completed = transport.run(["sh", "-c", SCRIPT, "sh", str(process)], DEADLINE_S)
    return parse(completed.stdout.decode(errors="replace"))


def parse(text: str) -> GpuMemory:
    """What the script's output says."""
    if found := re.match(r"(kgsl|mali) (\d{1,15})$", text.strip()):
        return GpuMemory(int(found[2]), found[1])
    files = [dict(line.split(":", 1) for line in block.splitlines() if ":" in line) for block in text.split("\n\n")]
    if (drm := _drm_bytes(files)) is not None:
        return GpuMemory(drm, "drm fdinfo")
    meters = _METERS.findall(text)
    return GpuMemory(KIB * sum(map(int, meters)), "dumpsys meminfo") if meters else GpuMemory()


def _drm_bytes(files: Iterable[Mapping[str, str]]) -> int | None:
    """The sum over clients of the driver, each of which may have several files; None without any."""
    clients = {file["drm-client-id"].strip(): file for file in files if "drm-client-id" in file}
    sizes = [size for file in clients.values() if (size := _client_bytes(file)) is not None]
    return sum(sizes) if sizes else None


def _client_bytes(file: Mapping[str, str]) -> int | None:
    """What one client holds: all of it where the driver tells, else what is resident, else by the older keys."""
    sizes: dict[str, int] = {}
    for name, value in file.items():
        if found := _DRM_SIZE.match(f"{name}:{value}"):
            sizes[found[1]] = sizes.get(found[1], 0) + int(found[2]) * _SCALES[found[3]]
    return next((sizes[kind] for kind in ("total", "resident", "memory") if kind in sizes), None)
