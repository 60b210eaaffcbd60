"""Files on a unit, named by their content: sent once, whatever model or job they belong to, until the room is needed.

    objects/<SHA-256>/<name>     the name is `data`, or the program's own for an executable, as `ps` shows it

The time of a file is when it was last used. When there is no room for more, those go that were not used for longest;
the running job's stay.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from farm.condition import linux_state
from farm.config.inventory import DEFAULT_STORE_MB
from farm.transport import base
from farm.transport.base import Transport
from runtime.errors import DeviceError, JobError

FOLDER = "objects/"
PUSHING = "push-"  # folders of farm.transport.posix in which files arrive
DEFAULT_LIMIT_BYTES = DEFAULT_STORE_MB * 1_000_000
SHARE_OF_ROOM = 0.5
DEADLINE_S = 60.0
BATCH = 300  # names in one command line

_WHOLE = re.compile(FOLDER + r"[0-9a-f]{64}/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,59}")

# The unit's clock, the last line of df, and all files (time, bytes, name) but farm's own notes there.
LIST = r"""
echo "now $(date +%s)"
echo "free $(df -k . 2>/dev/null | tail -n 1)"
find . -type f ! -path './.*' -exec stat -c 'file %Y %s %n' {} +
exit 0
"""
REMOVE = r"""
rm -f -- "$@"
rmdir -- */* * 2>/dev/null
exit 0
"""


@dataclasses.dataclass(frozen=True)
class Stored:
    """A file on the unit: its path, its size, and how long ago it was used."""

    name: str
    size_bytes: int
    idle_s: float

    @property
    def is_litter(self) -> bool:
        """Whether it was never sent to its end."""
        return self.name.startswith(PUSHING) or (self.name.startswith(FOLDER) and not _WHOLE.fullmatch(self.name))


@dataclasses.dataclass(frozen=True)
class Contents:
    """All files in the unit's folder, and the room beside them; None where the unit does not tell."""

    files: tuple[Stored, ...]
    free_bytes: int | None

    def objects(self) -> list[Stored]:
        """The store's files in the order in which they should go: litter first, then what was not used for longest."""
        stored = (file for file in self.files if file.name.startswith(FOLDER) or file.is_litter)
        return sorted(stored, key=lambda file: (not file.is_litter, -file.idle_s, file.name))


class DeviceStore:
    """The store of one unit, for one job; used as a context it notes at the end what was used.

    Args:
        transport: the way to the unit.
        limit_bytes: the most that it may hold; in any case no more than half of the room there is.
        check: raises a JobError when the lease is lost: then nothing is written, removed or noted any more.
    """

    def __init__(
        self, transport: Transport, limit_bytes: int | None = None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._transport, self._check = transport, check
        self._limit_bytes = DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes
        self._used: set[str] = set()
        self._known: dict[tuple[Path, int, int], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def put(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Brings files to the unit where it does not have them; returns their paths there.

        Files that are there cost one round trip in all.

        Raises:
            DeviceError: there is no room, even without what is not in use.
            JobError: a file cannot be read, the unit cannot be reached, or the lease is lost.
        """
        remotes = {path: self._remote(path) for path in paths}
        files = {remote: path for path, remote in remotes.items()}
        self._used.update(files)
        self._check()
        try:
            sent = self._transport.push(files)
        except DeviceError:
            if not self._make_room(sum(path.stat().st_size for path in files.values())):
                raise
            sent = self._transport.push(files)
        if sent:
            self._trim()
        return remotes

    def close(self) -> None:
        """Notes what was used; may be called twice."""
        names, self._used = sorted(self._used), set()
        with contextlib.suppress(JobError):
            self._check()
            for batch in _batches(names):
                self._transport.run(["touch", "-c", "--", *batch], DEADLINE_S)

    def _trim(self) -> None:
        """Keeps the limit."""
        contents = read(self._transport)
        size_bytes = sum(file.size_bytes for file in contents.objects())
        room_bytes = size_bytes + (contents.free_bytes if contents.free_bytes is not None else self._limit_bytes)
        self._remove(contents, size_bytes - min(self._limit_bytes, int(room_bytes * SHARE_OF_ROOM)))

    def _make_room(self, wanted_bytes: int) -> bool:
        """Removes what makes room for so much; False when nothing could go."""
        contents = read(self._transport)
        return self._remove(contents, wanted_bytes - (contents.free_bytes or 0)) > 0

    def _remove(self, contents: Contents, excess_bytes: int) -> int:
        """Removes files that the job does not use, until so much is gone; returns how many."""
        victims = []
        for file in contents.objects():
            if file.name not in self._used and (excess_bytes > 0 or file.is_litter):
                victims.append(file)
                excess_bytes -= file.size_bytes
        self._check()
        remove(self._transport, victims)
        return len(victims)

    def sha256(self, path: Path) -> str:
        """Hash of a file here, in hexadecimal; computed once as long as the file stays as it is."""
        try:
            status = path.stat()
            key = (path, status.st_size, status.st_mtime_ns)
            if key not in self._known:
                with path.open("rb") as file:
                    self._known[key] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise JobError(f"{path}: cannot be read: {error.strerror}") from None
        return self._known[key]

    def _remote(self, path: Path) -> str:
        """Where the file belongs on the unit."""
        name = re.sub(r"^\.|[^A-Za-z0-9_.-]", "_", path.name)[:60] if os.access(path, os.X_OK) else "data"
        return f"{FOLDER}{self.sha256(path)}/{name}"


def read(transport: Transport) -> Contents:
    """What is in the unit's folder."""
    return parse(transport.run(["sh", "-c", LIST, "list"], DEADLINE_S).stdout.decode(errors="replace"))


def parse(output: str) -> Contents:
    """What the script printed; lines that are none of its own (a name with a line end) are passed over."""
    files, now_s, free_bytes = [], 0, None
    for line in output.splitlines():
        match line.split(" ", 3):
            case ["now", seconds] if _is_number(seconds):
                now_s = int(seconds)
            case ["free", *_]:
                free_bytes = linux_state.free_bytes(line.removeprefix("free "))
            case ["file", time_s, size, name] if _is_number(time_s) and _is_number(size) and name.startswith("./"):
                files.append(Stored(name[2:], int(size), max(0.0, now_s - int(time_s))))
            case _:
                pass
    return Contents(tuple(files), free_bytes)


def remove(transport: Transport, files: Sequence[Stored]) -> None:
    """Removes files; only the holder of the lease may."""
    for batch in _batches([base.check_remote(file.name) for file in files]):
        transport.run(["sh", "-c", REMOVE, "remove", *batch], DEADLINE_S)


@dataclasses.dataclass(frozen=True)
class Cleaned:
    """What was removed from a unit, or would be; how much is left, and how much room there was before."""

    files: int
    size_bytes: int
    left_bytes: int
    free_bytes: int | None


def clean(transport: Transport, older_s: float = 0.0, dry_run: bool = False) -> Cleaned:
    """Removes all files that were not used for so long, of the store or not; only the holder of the lease may."""
    contents = read(transport)
    old = [file for file in contents.files if file.idle_s >= older_s or file.is_litter]
    if not dry_run:
        remove(transport, old)
    size_bytes = sum(file.size_bytes for file in old)
    left_bytes = sum(file.size_bytes for file in contents.files) - size_bytes
    return Cleaned(len(old), size_bytes, left_bytes, contents.free_bytes)


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[start : start + BATCH] for start in range(0, len(names), BATCH))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
