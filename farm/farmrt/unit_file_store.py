"""The content-addressed store of files on a unit: a file is sent once, whatever models and jobs use it.

    objects/<SHA-256>/<name>     the name is `data`, or the program's own for an executable, so that `ps` shows it

A file's modification time is when it was last used. When room is needed, the least recently used files are removed, but
never those of the running job.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from farm.config.inventory import DEFAULT_STORE_MB
from farm.transport import base, file_digest, storage
from farm.transport.base import Transport
from runtime.errors import DeviceError, JobError

Value = TypeVar("Value")

FOLDER = "objects/"
PUSH_PREFIX = "push-"  # folders of farm.transport.posix in which files arrive
DEFAULT_LIMIT_BYTES = DEFAULT_STORE_MB * 1_000_000
SHARE_OF_ROOM = 0.5
DEADLINE_S = 60.0
ROOM_BYTES = 4_000_000  # what is made free at once for a file of unknown size
MOST_EVICTIONS = 8  # before one write
BATCH = 300  # names in one command line

_WHOLE = re.compile(FOLDER + r"[0-9a-f]{64}/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,59}")

# Prints the unit's clock, the last line of df, and all files (time, bytes, name) but hidden ones: farm's own notes.
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
class UnitFile:
    """A file in the unit's folder: its path, its size, and how long ago it was used."""

    name: str
    size_bytes: int
    idle_s: float

    @property
    def is_incomplete(self) -> bool:
        """Whether the file was never sent completely."""
        return self.name.startswith(PUSH_PREFIX) or (self.name.startswith(FOLDER) and not _WHOLE.fullmatch(self.name))


@dataclasses.dataclass(frozen=True)
class UnitFolder:
    """All files in the unit's folder, and the free storage; None where the unit does not tell it."""

    files: tuple[UnitFile, ...]
    free_bytes: int | None

    def removal_order(self) -> list[UnitFile]:
        """The store's files in the order of removal: incomplete ones first, then the least recently used."""
        stored = (file for file in self.files if file.name.startswith(FOLDER) or file.is_incomplete)
        return sorted(stored, key=lambda file: (not file.is_incomplete, -file.idle_s, file.name))


class UnitFileStore:
    """The file store of one unit, for one job; leaving it as a context records which files were used.

    Args:
        transport: a connection to the unit.
        limit_bytes: the most that the store may hold; it never takes more than half of the storage it could have.
        check: raises a JobError when the lease is lost; the store then changes nothing any more.
    """

    def __init__(
        self, transport: Transport, limit_bytes: int | None = None, check: Callable[[], None] = lambda: None
    ) -> None:
        self._transport, self._check = transport, check
        self._limit_bytes = DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes
        self._used: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def put(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Sends the files that the unit does not have; returns local path -> path on the unit.

        Files that the unit has cost one round trip in all.

        Raises:
            DeviceError: there is no room, even after removing what is not in use.
            JobError: a file cannot be read, the unit cannot be reached, or the lease is lost.
        """
        remotes = {path: self._remote(path) for path in paths}
        files = {remote: path for path, remote in remotes.items()}
        self._used.update(files)
        self._check()
        needed_bytes = storage.space_needed(path.stat().st_size for path in files.values())
        if self.with_room(lambda: self._transport.push(files), needed_bytes):
            self._enforce_limit()
        return remotes

    def with_room(self, write: Callable[[], Value], needed_bytes: int = ROOM_BYTES) -> Value:
        """Writes on the unit; on a full one, again as long as there are unused files to remove first."""
        for _ in range(MOST_EVICTIONS):
            try:
                return write()
            except DeviceError as error:
                if not self._make_room(needed_bytes, is_full=error.kind == storage.NO_ROOM):
                    raise
        return write()

    def close(self) -> None:
        """Records which files were used; may be called twice."""
        names, self._used = sorted(self._used), set()
        with contextlib.suppress(JobError):
            self._check()
            for batch in _batches(names):
                self._transport.run(["touch", "-c", "--", *batch], DEADLINE_S)

    def _enforce_limit(self) -> None:
        """Removes files until the store is within its limit."""
        contents = read(self._transport)
        size_bytes = sum(file.size_bytes for file in contents.removal_order())
        room_bytes = size_bytes + (contents.free_bytes if contents.free_bytes is not None else self._limit_bytes)
        self._remove(contents, size_bytes - min(self._limit_bytes, int(room_bytes * SHARE_OF_ROOM)))

    def _make_room(self, wanted_bytes: int, is_full: bool) -> bool:
        """Removes files until `wanted_bytes` are free; False when there was nothing to remove.

        A unit that is full whatever it says is free loses files of so many bytes.
        """
        contents = read(self._transport)
        excess_bytes = wanted_bytes - (contents.free_bytes or 0)
        return self._remove(contents, max(excess_bytes, wanted_bytes) if is_full else excess_bytes) > 0

    def _remove(self, contents: UnitFolder, excess_bytes: int) -> int:
        """Removes files that the job does not use, until `excess_bytes` are gone; returns how many files."""
        victims = []
        for file in contents.removal_order():
            if file.name not in self._used and (excess_bytes > 0 or file.is_incomplete):
                victims.append(file)
                excess_bytes -= file.size_bytes
        self._check()
        remove(self._transport, victims)
        return len(victims)

    def sha256(self, path: Path) -> str:
        """Hash of a file here, in hexadecimal."""
        return file_digest.sha256(path)

    def _remote(self, path: Path) -> str:
        """The file's path on the unit."""
        name = re.sub(r"^\.|[^A-Za-z0-9_.-]", "_", path.name)[:60] if os.access(path, os.X_OK) else "data"
        return f"{FOLDER}{self.sha256(path)}/{name}"


def read(transport: Transport) -> UnitFolder:
    """Lists the unit's folder."""
    return parse(transport.run(["sh", "-c", LIST, "list"], DEADLINE_S).stdout.decode(errors="replace"))


def parse(output: str) -> UnitFolder:
    """Parses what the script printed; skips lines that are not its own, which a name with a line end causes."""
    files, now_s, free_bytes = [], 0, None
    for line in output.splitlines():
        match line.split(" ", 3):
            case ["now", seconds] if _is_number(seconds):
                now_s = int(seconds)
            case ["free", *_]:
                free_bytes = storage.free_bytes(line.removeprefix("free "))
            case ["file", time_s, size, name] if _is_number(time_s) and _is_number(size) and name.startswith("./"):
                files.append(UnitFile(name[2:], int(size), max(0.0, now_s - int(time_s))))
            case _:
                pass
    return UnitFolder(tuple(files), free_bytes)


def remove(transport: Transport, files: Sequence[UnitFile]) -> None:
    """Removes files from the unit; only the holder of the lease may call this."""
    for batch in _batches([base.check_remote(file.name) for file in files]):
        transport.run(["sh", "-c", REMOVE, "remove", *batch], DEADLINE_S)


@dataclasses.dataclass(frozen=True)
class CleanResult:
    """What was removed from a unit, or would be, what is left, and the free storage before."""

    files: int
    size_bytes: int
    left_bytes: int
    free_bytes: int | None


def clean(transport: Transport, older_s: float = 0.0, dry_run: bool = False) -> CleanResult:
    """Removes all files not used for `older_s`, in the store or not; only the holder of the lease may call this."""
    contents = read(transport)
    unused = [file for file in contents.files if file.idle_s >= older_s or file.is_incomplete]
    if not dry_run:
        remove(transport, unused)
    size_bytes = sum(file.size_bytes for file in unused)
    left_bytes = sum(file.size_bytes for file in contents.files) - size_bytes
    return CleanResult(len(unused), size_bytes, left_bytes, contents.free_bytes)


def _batches(names: Sequence[str]) -> Iterable[Sequence[str]]:
    return (names[start : start + BATCH] for start in range(0, len(names), BATCH))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
