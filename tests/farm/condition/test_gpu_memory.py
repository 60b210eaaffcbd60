"""What a GPU's driver holds for a process, from each of those who may tell."""

import subprocess
from pathlib import Path

import pytest

from farm.condition.gpu_memory import SCRIPT, GpuMemory, parse

PANFROST = """drm-driver: panfrost
drm-client-id: 7
drm-total-memory: 2048 KiB
drm-resident-memory: 1024 KiB

drm-driver: panfrost
drm-client-id: 7
drm-total-memory: 2048 KiB

drm-client-id: 9
drm-total-memory: 1 MiB
drm-shared-memory: 500 KiB
"""
AMDGPU = "drm-client-id:\t3\ndrm-memory-vram:\t100 KiB\ndrm-memory-gtt:\t20 KiB\ndrm-memory-cpu:\t0\n"
MEMINFO = """  Gfx dev     3000     2000        0        0
EGL mtrack       24       24        0        0
 GL mtrack    12000    12000        0        0
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kgsl 4096000\n", GpuMemory(4096000, "kgsl")),
        ("mali 8192\n", GpuMemory(8192, "mali")),
        (PANFROST, GpuMemory((2048 + 1024) * 1024, "drm fdinfo")),
        (AMDGPU, GpuMemory(120 * 1024, "drm fdinfo")),
        (MEMINFO, GpuMemory(15024 * 1024, "dumpsys meminfo")),
        ("", GpuMemory()),
        ("kgsl lots\n", GpuMemory()),
        ("No process found for: 77\n", GpuMemory()),
        ("drm-client-id: 3\ndrm-driver: other\n", GpuMemory()),
    ],
)
def test_who_tells(text: str, expected: GpuMemory) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("sys/class/kgsl/kgsl/proc/77/kernel_max", "kgsl"),
        ("sys/class/kgsl/kgsl/proc/77/kernel", "kgsl"),
        ("sys/class/misc/mali0/device/kprcs/77/total_gpu_mem", "mali"),
    ],
)
def test_the_kernels_files_are_asked_first(name: str, source: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("123\n")
    script = SCRIPT.replace("/sys/", f"{tmp_path}/sys/").replace("/proc/$pid/fdinfo", f"{tmp_path}/none")
    done = subprocess.run(["sh", "-c", script, "sh", "77"], capture_output=True, text=True, check=True)
    assert parse(done.stdout) == GpuMemory(123, source)
    assert done.stderr == ""
