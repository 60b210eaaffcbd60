"""The free storage of a unit, and the error where files need more than there is."""

import re
from collections.abc import Iterable

from runtime.errors import DeviceError

FREE = "df -k . 2>/dev/null | tail -n 1"  # for a shell on the unit, in the folder that is meant
BLOCK_BYTES = 4096
BYTES_PER_MB = 1_000_000
NO_ROOM = "no_room"  # the kind of a DeviceError
NO_ROOM_WORDS = re.compile(r"no space left on device|quota exceeded", re.IGNORECASE)  # of every C library, unlocalised


def free_bytes(line: str) -> int | None:
    """Parses the available bytes from a line of `df -k`: the KiB before the use in percent and the mount point.

    Names of devices and mount points may hold blanks.
    """
    match = re.search(r"\s[0-9]+\s+[0-9]+\s+([0-9]{1,15})\s+(?:[0-9]{1,3}%|-)\s+/", line)
    return int(match[1]) * 1024 if match else None


def space_needed(sizes_bytes: Iterable[int]) -> int:
    """The bytes that files of these sizes take, in whole blocks of the file system."""
    return sum(-(-size // BLOCK_BYTES) * BLOCK_BYTES for size in sizes_bytes)


def no_space_error(folder: str, needed_bytes: int, there_bytes: int | None) -> DeviceError | None:
    """The error for files that do not fit into a folder (`unit: folder`); None where they fit or nobody knows."""
    if there_bytes is None or there_bytes >= needed_bytes:
        return None
    needed, there = (f"{count / BYTES_PER_MB:.1f} MB" for count in (needed_bytes, there_bytes))
    return DeviceError(f"{folder}: no space left: {needed} needed, {there} free; make room there", NO_ROOM)


def refusal_error(text: str, kind: str = "") -> DeviceError:
    """The error of a unit that refuses to do something, in its words; whatever `df` says, they tell whether it is full.

    A quota, blocks reserved for root and a lack of inodes leave bytes free that nobody can have.
    """
    return DeviceError(f"{text}; make room there", NO_ROOM) if NO_ROOM_WORDS.search(text) else DeviceError(text, kind)
