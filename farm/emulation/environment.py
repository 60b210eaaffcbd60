"""How a phone's commands are started on this machine: the environment they see, the rights they lack."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from farm import toolchain
from farm.emulation.filesystem import map_command
from farm.emulation.processes import MARK
from farm.farmrt import working_drivers
from farm.farmrt.drivers import find_drivers

# As a phone's shell, which is not root: what root has write-protected must be so for us too.
WITHOUT_OVERRIDE = ("--bounding-set", "-dac_override,-dac_read_search")
# A limit on each file stands for a full storage; the signal is ignored, so that the write fails as on a phone.
LIMITED = 'trap "" XFSZ; ulimit -f "$1"; exec "$2" -c "$3"'
LIMIT_UNIT_BYTES = 512
# How many cores the OpenCL device has: for newer and older versions of PoCL, and for Intel's driver.
CORE_LIMITS = ("POCL_CPU_MAX_CU_COUNT", "POCL_MAX_PTHREAD_COUNT", "CL_CONFIG_CPU_TBB_NUM_WORKERS")


def make_environment(folder: Path, root: Path, state: Path, compute_units: int | None) -> dict[str, str]:
    """What the commands of the phone with that folder see; farmrt for this machine finds its OpenCL driver there."""
    found = toolchain.environment()
    drivers = find_drivers()
    if drivers and not found.get("FARM_OPENCL"):
        found["FARM_OPENCL"] = str(working_drivers.best(drivers).path)
    if compute_units:
        found |= dict.fromkeys(CORE_LIMITS, str(compute_units))
    host_path = found.get("PATH", os.defpath)
    return found | {
        MARK: str(folder),
        "PHONE_ROOT": str(root),
        "PHONE_STATE": str(state),
        "PHONE_HOST_PATH": host_path,
        "PATH": f"{root}/system/bin",
        "HOME": str(root),
        "TMPDIR": f"{root}/data/local/tmp",
        "POCL_CACHE_DIR": f"{root}/data/pocl",
        "ANDROID_DATA": f"{root}/data",
        "ANDROID_ROOT": f"{root}/system",
        "SHELL": shell_of(root),
        "USER": "shell",
        "PS1": "phone:$PWD $ ",
    }


def command_line(command: str, root: Path, free_bytes: int | None, rooted: bool) -> list[str]:
    """Argument list of a command text; empty text is an interactive shell."""
    prefix = [] if rooted else list(_prefix())
    mapped, shell = map_command(command, root), shell_of(root)
    if free_bytes is not None and command:
        return [*prefix, "/bin/sh", "-c", LIMITED, "sh", str(free_bytes // LIMIT_UNIT_BYTES), shell, mapped]
    return [*prefix, shell, *(["-c", mapped] if command else [])]


def shell_of(root: Path) -> str:
    """The shell of the phone's commands."""
    return f"{root}/system/bin/sh"


@functools.cache
def _prefix() -> tuple[str, ...]:
    """Gives up root's right to write anything, where we have it and the machine lets us."""
    program = shutil.which("setpriv")
    if os.geteuid() != 0 or program is None:
        return ()
    prefix = (program, *WITHOUT_OVERRIDE)
    worked = subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0
    return prefix if worked else ()
