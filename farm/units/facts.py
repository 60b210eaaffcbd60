"""Reads what a unit is (model, SoC, ABIs, system, GPU) with one small script that every shell understands.

A device's answers may be missing, wrong, endless or hostile. So every fact is cut to a bounded length and to one line,
and is safe as part of a file name where it is used as one.
"""

import dataclasses
import platform
import re
from collections.abc import Iterator, Mapping
from typing import get_args

from farm import safe_text, soc
from farm.config.fields import Abi
from farm.config.inventory import DEFAULT_FILE, Unit
from farm.rows.record import Record
from farm.transport.base import Transport

DEADLINE_S = 20.0
MAX_OUTPUT_BYTES = 1024**2
MAX_VALUE = 4096
MARK = "@farm "
OLDEST_API = 24  # farmrt is built for it
NO_ABI = f"it runs no ABI that farm knows; target_abis in {DEFAULT_FILE} would name one"

PROPERTIES = (
    "ro.product.model",
    "ro.soc.model",
    "ro.board.platform",
    "ro.hardware.chipname",
    "ro.chipname",
    "ro.mediatek.platform",
    "ro.hardware",
    "ro.product.cpu.abilist",
    "ro.product.cpu.abi",
    "ro.build.version.release",
    "ro.build.version.sdk",
    "ro.hardware.egl",
    "ro.build.fingerprint",
)
# Name of an answer -> the file that it is read from.
FILES = {
    "compatible": "/proc/device-tree/compatible",
    "tree-model": "/proc/device-tree/model",
    "soc0-machine": "/sys/devices/soc0/machine",
    "soc0-id": "/sys/devices/soc0/soc_id",
    "soc0-family": "/sys/devices/soc0/family",
    "os-release": "/etc/os-release",
    "product": "/sys/devices/virtual/dmi/id/product_name",
    "adreno": "/sys/class/kgsl/kgsl-3d0/gpu_model",
    "mali": "/sys/class/misc/mali0/device/gpuinfo",
}

SCRIPT = rf"""
say() {{ echo; echo "{MARK}$1"; }}
file() {{ [ -r "$2" ] && {{ say "$1"; cat "$2"; }}; }}
if command -v getprop >/dev/null; then
  for name in {" ".join(PROPERTIES)}; do say "$name"; getprop "$name"; done
fi
{chr(10).join(f"file {name} {path}" for name, path in FILES.items())}
say hardware; grep '^Hardware' /proc/cpuinfo
say machine; uname -m
say kernel; uname -r
say bits; getconf LONG_BIT
say packages; command -v dpkg >/dev/null && {{ dpkg --print-architecture; dpkg --print-foreign-architectures; }}
exit 0
"""

# What dpkg and uname call the ABIs of boards.
BOARD_ABIS: Mapping[str, Abi] = {
    "arm64": "arm64",
    "aarch64": "arm64",
    "armhf": "armhf",
    "armv7l": "armhf",
    "armv8l": "armhf",
}


class Facts(Record):
    """What a unit is; members are empty where it does not tell. `os` reads as `Android 14 (API 34)` or `Debian 12`.

    `build` tells an updated system from the one before: Android's fingerprint, or the kernel's release.
    """

    model: str = ""
    soc: str = soc.UNKNOWN
    abis: tuple[Abi, ...] = ()
    os: str = ""
    gpu: str = ""
    build: str = ""

    @property
    def obstacle(self) -> str:
        """Why farmrt cannot run there, as far as these tell; empty where it may."""
        api = re.search(r"\(API (\d{1,4})\)$", self.os)
        return (
            f"{self.os} is too old: farm needs Android 7 (API {OLDEST_API})" if api and int(api[1]) < OLDEST_API else ""
        )


def read_facts(transport: Transport) -> Facts:
    """Reads the facts from the unit; raises JobError where it cannot be reached."""
    answer = transport.run(["sh", "-c", SCRIPT], DEADLINE_S).stdout[:MAX_OUTPUT_BYTES]
    return parse(answer.decode(errors="replace"))


def parse(output: str, host_machine: str = "") -> Facts:
    """Parses the script's output.

    A unit whose machine type (`uname -m`) is `host_machine`, by default this host's, gets the ABI `host`.
    """
    values = dict(_values(output))
    return Facts(
        model=_first(values, "ro.product.model", "tree-model", "product"),
        soc=soc.soc_key(_soc_names(values)),
        abis=_abis(values, host_machine or platform.machine()),
        os=_os_name(values),
        gpu=_first(values, "adreno", "mali", "ro.hardware.egl"),
        build=_first(values, "ro.build.fingerprint", "kernel"),
    )


def complete(unit: Unit, facts: Facts) -> Unit:
    """Fills what devices.yml leaves open with the unit's facts; what the file says is kept."""
    return dataclasses.replace(
        unit,
        soc=facts.soc if unit.soc == soc.UNKNOWN else unit.soc,
        model=facts.model if facts.model and unit.model == unit.name and not unit.kind.is_local else unit.model,
        abis=unit.abis or facts.abis,
    )


def _values(output: str) -> Iterator[tuple[str, str]]:
    """Yields name and text of each answer, in reverse order, so that in a dictionary the first of a name wins."""
    parts = re.split(rf"^{MARK}(\S{{1,60}})$", output, flags=re.MULTILINE)
    pairs = list(zip(parts[1::2], parts[2::2], strict=True))
    for name, text in reversed(pairs):
        yield name, text[:MAX_VALUE].strip("\n")


def _first(values: Mapping[str, str], *names: str) -> str:
    """The first answer that is not empty, made safe to print."""
    texts = (safe_text.word(values.get(name, "").replace("\0", "")) for name in names)
    return next((word for word in texts if word), "")


def _soc_names(values: Mapping[str, str]) -> Iterator[str]:
    """Yields the names that the unit gives its SoC, the most precise first."""
    for name in ("ro.soc.model", "ro.board.platform", "ro.hardware.chipname", "ro.chipname", "ro.mediatek.platform"):
        yield values.get(name, "")
    yield from soc.compatible_chips(values.get("compatible", ""))
    yield values.get("ro.hardware", "")
    yield values.get("soc0-machine", "")
    number = values.get("soc0-id", "").strip()
    yield soc.qualcomm_key(number) if "snapdragon" in values.get("soc0-family", "").lower() else number
    yield values.get("hardware", "").partition(":")[2]


def _abis(values: Mapping[str, str], host_machine: str) -> tuple[Abi, ...]:
    android = values.get("ro.product.cpu.abilist") or values.get("ro.product.cpu.abi")
    if android:
        android_abis = {str(abi): abi for abi in get_args(Abi) if abi not in BOARD_ABIS.values()}
        return _unique(android_abis.get(word.strip()) for word in android.split(","))
    machine = values.get("machine", "").strip()
    if values.get("bits", "").strip() == "32" and machine == "aarch64":
        machine = "armhf"
    packages = values.get("packages", "").split()[:8]
    abis = _unique(BOARD_ABIS.get(word) for word in (packages or [machine]))
    return abis or (("host",) if machine and machine == host_machine else ())


def _unique(abis: Iterator[Abi | None]) -> tuple[Abi, ...]:
    return tuple(dict.fromkeys(abi for abi in abis if abi))


def _os_name(values: Mapping[str, str]) -> str:
    release = _first(values, "ro.build.version.release")
    if release:
        api = _first(values, "ro.build.version.sdk")
        return safe_text.word(f"Android {release}{f' (API {api})' if api else ''}")
    os_release = dict(re.findall(r'^(NAME|VERSION_ID)="?([^"\n]*)"?$', values.get("os-release", ""), re.MULTILINE))
    return safe_text.word(f"{os_release.get('NAME', '').removesuffix(' GNU/Linux')} {os_release.get('VERSION_ID', '')}")
