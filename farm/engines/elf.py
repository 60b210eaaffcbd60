"""For which machine a program or library is made (ELF-64 and ELF-32 object files: e_machine of the header)."""

import platform
from pathlib import Path

from runtime.native.abi import HOST

_MAGIC, _HEADER_BYTES = b"\x7fELF", 20
_MACHINES = {3: "x86", 40: "ARM", 62: "x86_64", 183: "aarch64"}
_OF_ABI = {"arm64": "aarch64", "arm64-v8a": "aarch64", "armhf": "ARM", "armeabi-v7a": "ARM"}


def wrong_machine(path: Path, abi: str) -> str:
    """Says that a file is for another machine than an ABI's; empty where it is not, or is no ELF file (a script)."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return ""
    number = int.from_bytes(header[18:20], "big" if header[5] == 2 else "little")
    made_for = _MACHINES.get(number, f"machine {number}")
    wanted = machine_of(abi)
    return "" if made_for == wanted else f"{path} is made for {made_for}, and {abi} is {wanted}"


def is_elf(path: Path) -> bool:
    """Whether a file is a program or library at all."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def machine_of(abi: str) -> str:
    """The machine of an ABI, as Linux calls it."""
    return platform.machine() if abi == HOST else _OF_ABI[abi]
