"""A folder in which all who tune one SoC, in whatever process and on whatever host, follow each other's trials.

    <soc>.<host>-<boot>-<id>.jsonl     a journal to which the tuners of one host append until it is started anew
    others/<...>.jsonl                 copies of other hosts' journals, where hosts do not share the folder itself

Files are only ever appended to, a whole line at once, and synced line by line; a host writes none but its own, so that
no lock is needed and a folder on a network file system does. Hosts may have one name (cloned images, containers): what
tells them apart is the id that Linux draws when it starts. A last line that is not complete yet is read later; one
that a killed process left incomplete is ended by the next writer, and passed over.
"""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from runtime.errors import ConfigError, unwritten

POLL_S = 0.2
COPIES = "others"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SharedJournal:
    """A SoC's trials in a shared folder.

    Args:
        folder: the folder; it is made.
        soc: the SoC.
        header: the first line of each file.
        clock: seconds that go on.

    Attributes:
        poll_s: files are looked at again after so many seconds.
    """

    def __init__(self, folder: Path, soc: str, header: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._soc, self._header, self._clock = folder, soc, header, clock
        self._read: dict[Path, int] = {}
        self._looked_s: float | None = None
        self._file: BinaryIO | None = None
        self.poll_s = POLL_S

    def add(self, line: bytes) -> None:
        """Shares a trial, a line without its end. Raises ConfigError when it cannot be written."""
        try:
            file = self._file = self._file or self._opened()
            file.write(line + b"\n")
            os.fsync(file.fileno())
        except OSError as error:
            raise unwritten(f"{self._folder}: trials cannot be shared there", error, ConfigError) from None

    def news(self) -> Iterator[bytes]:
        """The lines that were added since this was asked last, this process's own among them."""
        now_s = self._clock()
        if self._looked_s is not None and now_s - self._looked_s < self.poll_s:
            return
        self._looked_s = now_s
        for path in sorted(self._folder.rglob(f"{self._soc}.*.jsonl")):
            content = complete_lines(path, self._read.get(path, 0))
            self._read[path] = self._read.get(path, 0) + len(content)
            yield from (line for line in content.split(b"\n") if line and line != self._header)

    def close(self) -> None:
        """Ends writing; may be called twice."""
        if self._file:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        """This host's file; a new one where it has none, whose name no other host will ever use."""
        self._folder.mkdir(parents=True, exist_ok=True)
        own = f"{self._soc}.{socket.gethostname().partition('.')[0] or 'host'}-{host_id()}"
        known = sorted(self._folder.glob(f"{own}-*.jsonl"))
        path = known[0] if known else self._folder / f"{own}-{secrets.token_hex(4)}.jsonl"
        file = path.open("ab", buffering=0)
        if not (content := path.read_bytes()):
            file.write(self._header + b"\n")
        elif not content.endswith(b"\n"):
            file.write(b"\n")
        return file


def host_id() -> str:
    """Tells this host from all others until it is started anew; where no system says it, this call from all others."""
    try:
        return BOOT_ID.read_text()[:8]
    except OSError:
        return secrets.token_hex(4)


def complete_lines(path: Path, offset: int, limit: int = -1) -> bytes:
    """The complete lines of a file from an offset, `limit` bytes at most; none where it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(offset)
        content = file.read(limit)
        return content[: content.rfind(b"\n") + 1]
    return b""
