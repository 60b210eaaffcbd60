"""How an emulated phone's commands are started on this machine: their environment and their missing rights."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from farm import toolchain
from farm.emulation.filesystem import map_command
from farm.emulation.played_gpu import played_environment
from farm.emulation.processes import PHONE_VARIABLE
from farm.farmrt import working_drivers
from farm.farmrt.drivers import find_drivers
from runtime.errors import ConfigError

# A phone's shell is not root, so files that root has write-protected must be so for its commands here too.
WITHOUT_OVERRIDE = ("--bounding-set", "-dac_override,-dac_read_search")
# A limit on the size of files emulates full storage; the signal is ignored, so that a write fails as on a phone.
LIMITED_FILE_SIZE = 'trap "" XFSZ; ulimit -f "$1"; exec "$2" -c "$3"'
LIMIT_UNIT_BYTES = 512
# In a namespace of its own: what the phone writes outside of it is seen there all the same.
NO_EXECUTION = '"$1" --bind "$2" "$2" && "$1" -o remount,bind,noexec "$2" && shift 2 && exec "$@"'
# How many cores the OpenCL device has: for newer and older versions of PoCL, and for Intel's driver.
CORE_LIMITS = ("POCL_CPU_MAX_CU_COUNT", "POCL_MAX_PTHREAD_COUNT", "CL_CONFIG_CPU_TBB_NUM_WORKERS")


def make_environment(folder: Path, root: Path, state: Path, compute_units: int | None, gpu: str = "") -> dict[str, str]:
    """Makes the environment of a phone's commands; FARM_OPENCL leads this machine's farmrt to an OpenCL driver.

    With a `gpu` (`PROFILE[:KEY=VALUE,...]`) it is the library that plays one; raises ConfigError for a bad profile.

    The kernels that PoCL has built stay on the phone, unless POCL_CACHE_DIR names a place for those of all phones.
    """
    variables = toolchain.environment()
    drivers = find_drivers()
    if gpu:
        variables |= played_environment(gpu)
    elif drivers and not variables.get("FARM_OPENCL"):
        variables["FARM_OPENCL"] = str(working_drivers.best(drivers).path)
    if compute_units:
        variables |= dict.fromkeys(CORE_LIMITS, str(compute_units))
    host_path = variables.get("PATH", os.defpath)
    return variables | {
        PHONE_VARIABLE: str(folder),
        "PHONE_ROOT": str(root),
        "PHONE_STATE": str(state),
        "PHONE_HOST_PATH": host_path,
        "PATH": f"{root}/system/bin",
        "HOME": str(root),
        "TMPDIR": f"{root}/data/local/tmp",
        "POCL_CACHE_DIR": variables.get("POCL_CACHE_DIR") or f"{root}/data/pocl",
        "ANDROID_DATA": f"{root}/data",
        "ANDROID_ROOT": f"{root}/system",
        "SHELL": shell_of(root),
        "USER": "shell",
        "PS1": "phone:$PWD $ ",
    }


def command_line(command: str, root: Path, free_bytes: int | None, rooted: bool) -> list[str]:
    """Makes the argument list that runs a command text; an empty text gives an interactive shell."""
    prefix = [] if rooted else list(_drop_privileges_prefix())
    mapped, shell = map_command(command, root), shell_of(root)
    if free_bytes is not None and command:
        return [*prefix, "/bin/sh", "-c", LIMITED_FILE_SIZE, "sh", str(free_bytes // LIMIT_UNIT_BYTES), shell, mapped]
    return [*prefix, shell, *(["-c", mapped] if command else [])]


def without_execution(folder: Path) -> list[str]:
    """What runs a command so that nothing in the folder can be executed; raises ConfigError where it cannot be so."""
    programs = [shutil.which(name) for name in ("unshare", "mount", "true")]
    unshare, mount, true = (program or "" for program in programs)
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    prefix = [unshare, *as_root, "--mount", "/bin/sh", "-c", NO_EXECUTION, "sh", mount, str(folder)]
    if not all(programs) or subprocess.run([*prefix, true], check=False, capture_output=True).returncode:
        raise ConfigError("--fault noexec: this machine does not let this user make namespaces (unshare --mount)")
    return prefix


def shell_of(root: Path) -> str:
    """The path of the phone's shell on this machine."""
    return f"{root}/system/bin/sh"


@functools.cache
def _drop_privileges_prefix() -> tuple[str, ...]:
    """The command prefix that drops root's right to override file permissions; empty where not needed or allowed."""
    program = shutil.which("setpriv")
    if os.geteuid() != 0 or program is None:
        return ()
    prefix = (program, *WITHOUT_OVERRIDE)
    allowed = subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode == 0
    return prefix if allowed else ()
