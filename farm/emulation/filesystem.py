"""The phone's private folder: the part of Android's file tree that farm reads, and the mapping of paths to it."""

import contextlib
import importlib.resources
import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from farm.emulation.socs import Soc
from runtime.errors import ConfigError

# Folders of the device that are mapped into the private folder; of /proc only some files, the rest is this machine's.
FOLDERS = (
    "data",
    "sdcard",
    "storage",
    "mnt",
    "system",
    "vendor",
    "product",
    "odm",
    "cache",
    "etc",
    "tmp",
    "sys",
    "bin",
)
PROC_FILES = ("cpuinfo", "loadavg", "device-tree", "version", "sys/kernel/random/boot_id")
# A device path starts a word, or follows a quote, `=`, `:` or an operator; `./data`, `a/data` and `$x/data` are not.
DEVICE_PATH = re.compile(
    rf"(?<![\w./~*?$)}}\]-])/(?=(?:{'|'.join(FOLDERS)}|proc/(?:{'|'.join(map(re.escape, PROC_FILES))}))(?![\w.-]))"
)
LINKS = {"sdcard": "storage/emulated/0", "etc": "system/etc", "bin": "system/bin"}
EMPTY_FOLDERS = (
    "data/local/tmp",
    "storage/emulated/0",
    "system/etc",
    "system/lib64",
    "vendor/lib64",
    "vendor/bin",
    "mnt",
)
GOVERNORS = "schedutil performance powersave userspace"
GPU_GOVERNORS = {
    "adreno": "msm-adreno-tz performance powersave simple_ondemand",
    "mali": "simple_ondemand performance powersave",
}
TASK_PROFILES_SINCE = 13

# The programs of Android's toybox, linked to this machine's; with the linker that PoCL calls they are all of the PATH.
# Source of which Android has which: shell_and_utilities/README.md of AOSP's platform/system/core.
HOST_PROGRAM_NAMES = """
awk base64 basename cat chmod chown cksum cmp comm cp cut dd diff dirname du echo egrep env expr false fgrep find flock
getconf grep gunzip gzip head hostname kill ln ls md5sum mkdir mkfifo mktemp mv nice nohup nproc od paste pgrep pidof
pkill printenv printf ps pwd readlink realpath renice rm rmdir sed seq setsid sha1sum sha224sum sha256sum sha384sum
sha512sum sleep sort split strings stty sync tac tail tar taskset tee test time timeout top touch tr true truncate tty
uname uniq uptime wc which xargs xxd yes zcat
"""
PROGRAMS_SINCE = {
    6: """
base64 basename chgrp cksum comm cut dirname env expand expr false find free head hostname id md5sum mkfifo mktemp nice
nl nproc od paste patch pgrep pidof pkill printf pwd realpath sed seq setsid sha1sum sort split stat strings tac tail
tar taskset tee time timeout tr true truncate uname uniq wc which whoami xargs yes
""",
    7: "base64 flock tty xxd",
    8: "diff file gunzip gzip mkfifo sha224sum sha256sum sha384sum sha512sum stop uudecode uuencode zcat",
    9: "awk stty",
    10: "bc getconf nproc unlink watch",
    12: "[ test",
}
LINKER = "ld"


def map_command(command: str, root: Path) -> str:
    """Maps every device path in a command line to a path below `root`."""
    return DEVICE_PATH.sub(lambda _: f"{root}/", command)


class OutputPathMapper:
    """Removes the root's name from a command's output, so that paths in it are those of the device.

    A piece of output may end within that name: bytes that could be its start are held back until the next piece.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self._whole = re.compile(re.escape(self._root) + b"/?")
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Maps a piece of output; returns what can be passed on now."""
        data = self._held + chunk
        ends = (match.end() for match in self._whole.finditer(data))
        settled = max((end for end in ends if data[end - 1 : end] == b"/" or end < len(data)), default=0)
        longest = min(len(self._root), len(data) - settled)
        held_bytes = next((size for size in range(longest, 0, -1) if data.endswith(self._root[:size])), 0)
        self._held = data[len(data) - held_bytes :]
        return self._whole.sub(b"/", data[: len(data) - held_bytes])

    def end(self) -> bytes:
        """Returns what was held back, at the end of the output."""
        held, self._held = self._held, b""
        return self._whole.sub(b"/", held)


def map_path(path: str, root: Path) -> Path:
    """Maps a path of the sync service to one below the root; `..` does not lead out of it."""
    return root / os.path.normpath("/" + path).lstrip("/")


def check_folder_name(root: Path) -> None:
    """Refuses a folder whose name a shell would change, since commands contain it."""
    if shlex.quote(str(root)) != str(root):
        raise ConfigError(f"{root}: an emulated phone needs a folder without blanks and quotes; set TMPDIR to one")


def make_tree(root: Path, soc: Soc, android: int, rooted: bool, programs: Mapping[str, str]) -> None:
    """Makes the phone's file tree; sensor readings (temperatures, clocks, load) are written later by PhoneState.

    Args:
        programs: name -> program of this machine that the phone has beside its own.
    """
    for folder in EMPTY_FOLDERS:
        (root / folder).mkdir(parents=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    _install_programs(root / "system/bin", android, programs)
    _make_proc(root / "proc", soc)
    writable = 0o644 if rooted else 0o444
    for core, cluster in enumerate(soc.cores):
        frequency = root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        write(frequency / "scaling_governor", "schedutil", writable)
        write(frequency / "scaling_available_governors", GOVERNORS)
        for kind, khz in (("min", cluster.min_khz), ("max", cluster.max_khz)):
            write(frequency / f"cpuinfo_{kind}_freq", str(khz))
            write(frequency / f"scaling_{kind}_freq", str(khz), writable)
    write(root / "sys/devices/system/cpu/online", f"0-{len(soc.cores) - 1}")
    _make_gpu(root / "sys", soc, writable)
    if soc.soc_id is not None:
        for name, value in (("machine", soc.soc_model), ("soc_id", str(soc.soc_id)), ("family", "Snapdragon")):
            write(root / "sys/devices/soc0" / name, value)


def write_boot_id(root: Path) -> None:
    """Writes a new boot id, as the kernel has one for each boot."""
    write(root / "proc/sys/kernel/random/boot_id", str(uuid.uuid4()))


def write(path: Path, text: str, mode: int = 0o444) -> None:
    """Writes a line atomically: a reader sees the old or the new one, as of a file of the kernel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(f"{text}\n")
    temporary.chmod(mode)
    temporary.replace(path)


def read(path: Path) -> str:
    """Reads the line of a file; empty when the file is missing."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def used_bytes(root: Path) -> int:
    """The total size of the files below the folder."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):  # gone meanwhile
                total += Path(folder, name).lstat().st_size
    return total


def host_programs(host_path: str) -> dict[str, str]:
    """Finds this machine's shell and programs for the names that a phone has; returns name -> path."""
    paths = {name: shutil.which(name, path=host_path) for name in (*HOST_PROGRAM_NAMES.split(), LINKER)}
    return {"sh": "/bin/sh"} | {name: path for name, path in paths.items() if path}


def toybox_programs(host_path: str) -> dict[str, str]:
    """Finds mksh and toybox, Android's shell and programs, with this machine's programs for what its toybox lacks.

    Raises ConfigError where this machine lacks them.
    """
    shell, toybox = (shutil.which(name, path=host_path) for name in ("mksh", "toybox"))
    if not shell or not toybox:
        raise ConfigError("a phone with toybox needs mksh and toybox on this machine; Debian: apt install mksh toybox")
    names = subprocess.run([toybox], capture_output=True, text=True, check=True).stdout.split()
    return host_programs(host_path) | dict.fromkeys(names, toybox) | {"sh": shell}


def _install_programs(folder: Path, android: int, host_paths: Mapping[str, str]) -> None:
    """Installs the emulated programs, and links to this machine's programs under the other names."""
    folder.mkdir(parents=True)
    for source in importlib.resources.files("farm.emulation").joinpath("programs").iterdir():
        program = folder / source.name
        program.write_bytes(source.read_bytes())
        program.chmod(0o755)
    if android < TASK_PROFILES_SINCE:
        (folder / "settaskprofile").unlink()
    for name, target in host_paths.items():
        if not (folder / name).exists():
            (folder / name).symlink_to(target)
    for since, names in PROGRAMS_SINCE.items():
        remove_programs(folder, names.split() if android < since else ())


def remove_programs(folder: Path, names: Iterable[str]) -> None:
    """Removes programs from their folder."""
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _make_proc(proc: Path, soc: Soc) -> None:
    cores = "".join(f"processor\t: {core}\nCPU implementer\t: 0x41\n\n" for core in range(len(soc.cores)))
    write(proc / "cpuinfo", f"{cores}Hardware\t: {soc.maker} {soc.soc_model}")
    write(proc / "version", "Linux version 4.19.0 (emulated phone)")
    tree = proc / "device-tree"
    tree.mkdir()
    (tree / "compatible").write_bytes(b"".join(name.encode() + b"\0" for name in soc.compatible))
    (tree / "model").write_bytes(f"{soc.maker} {soc.soc_model}".encode() + b"\0")
    write_boot_id(proc.parent)


def _make_gpu(sys: Path, soc: Soc, writable: int) -> None:
    gpu, folder = soc.gpu, sys / soc.gpu.folder
    if gpu.maker == "powervr":  # the driver has no devfreq
        return
    devfreq = gpu_devfreq(sys.parent, soc)
    names = GPU_GOVERNORS[gpu.maker]
    write(devfreq / "governor", names.split()[0], writable)
    write(devfreq / "available_governors", names)
    for kind, hertz in (("min", gpu.min_hz), ("max", gpu.max_hz)):
        write(devfreq / f"{kind}_freq", str(hertz), writable)
    (sys / "class/devfreq").mkdir(parents=True)
    (sys / "class/devfreq" / folder.name).symlink_to(devfreq)
    if gpu.maker == "adreno":
        write(folder / "gpu_model", gpu.name)
        write(folder / "max_gpuclk", str(gpu.max_hz), writable)
    else:
        write(folder / "gpuinfo", gpu.name)
        (sys / "class/misc/mali0").mkdir(parents=True)
        (sys / "class/misc/mali0/device").symlink_to(folder)


def gpu_devfreq(root: Path, soc: Soc) -> Path:
    """The folder in sysfs of the GPU's frequency scaling."""
    folder = root / "sys" / soc.gpu.folder
    return folder / "devfreq" if soc.gpu.maker == "adreno" else folder / "devfreq" / folder.name
