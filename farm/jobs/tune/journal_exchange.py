"""Carries tuning trials between the hosts of a cluster: each host's shared journals become copies on all others.

A host says to all others (farm/cluster/worker.py) what it appends to its own journals, and where in the file it
stands; the others append it to their copies, which their tuners follow too (tuner/shared_journal.py). Who misses
something says so, and the owner says it again from there: after a lost message, an absence, or where a host is new.
Files only grow and their names are unique, so that nothing needs to be agreed upon.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.safe_text import one_line
from tuner.shared_journal import COPIES, complete_lines

PART_BYTES = 256 * 1024
SHARED_JOURNALS = "FARM_JOURNALS"
ENCODING = "latin-1"  # a byte a character: offsets hold whatever the lines are
FOLDER = Path("build/cluster/journals")

Message = dict[str, Any]


def shared_folder() -> Path:
    """Where the tuners of this host share trials: where FARM_JOURNALS says, else below build/."""
    return Path(os.environ.get(SHARED_JOURNALS) or FOLDER).resolve()


class JournalExchange:
    """One host's side; `outgoing` is what the others must hear."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder, self._host = folder, host
        self.outgoing: list[Message] = []
        self._said = {path.name: len(complete_lines(path, 0)) for path in self._own()}

    def announce(self) -> None:
        """Says how far each of this host's own journals goes."""
        for path in self._own():
            self._tell(path.name, self._said.get(path.name, 0), b"")

    def look(self) -> None:
        """Says what has been appended to this host's own journals since."""
        for path in self._own():
            offset = self._said.get(path.name, 0)
            while part := complete_lines(path, offset, PART_BYTES):
                self._tell(path.name, offset, part)
                offset += len(part)
            self._said[path.name] = offset

    def hear(self, message: Message) -> None:
        """Takes a message of any host, this one's own among them; one that makes no sense is passed over.

        So is what cannot be written here, which is asked for again when there is more.
        """
        with contextlib.suppress(KeyError, TypeError, ValueError, OSError):
            name, offset = str(message["journal"]), max(int(message["offset"]), 0)
            if Path(name).name != name or not name.endswith(".jsonl") or one_line(name) != name:
                return
            if message.get("wanted_of") == self._host:
                self._said[name] = min(self._said.get(name, 0), offset)
            elif message.get("host") not in (None, self._host):
                self._append(name, str(message["host"]), offset, str(message["lines"]).encode(ENCODING))

    def _append(self, name: str, host: str, offset: int, content: bytes) -> None:
        """Appends what is new to a copy; asks for what lies between."""
        path = self._folder / COPIES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            size = file.tell()
            if offset > size:
                self.outgoing.append({"journal": name, "wanted_of": host, "offset": size})
            elif new := content[size - offset :]:
                file.write(new)

    def _tell(self, name: str, offset: int, lines: bytes) -> None:
        message = {"journal": name, "host": self._host, "offset": offset, "lines": lines.decode(ENCODING)}
        self.outgoing.append(message)

    def _own(self) -> Iterator[Path]:
        return iter(sorted(self._folder.glob("*.jsonl")))
