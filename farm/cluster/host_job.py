"""A command line as a host carries it out: a folder with the files that were sent, and what is kept of what it made."""

import dataclasses
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from farm.cluster.host_files import HostFiles
from farm.rows.status import Status
from runtime.errors import NO_ROOM, FarmError, NoRoomError

NO_ROOM_KIND = "no_room"  # of the problem that a document tells of
OUTPUTS = "outputs"  # as an argument: the folder of a job's files that the client wants back

RunInFolder = Callable[[Sequence[str], Path], dict[str, Any]]
"""Runs a command line in a folder; the document that it prints."""


@dataclasses.dataclass(frozen=True)
class HostJob:
    """What a client sent.

    Attributes:
        arguments: the command line without `farm`.
        files: path in the job's folder -> hash.
        own: the name of a folder of its own; empty: one that jobs with the same files share.
        leaves: whether artifacts and journals that it leaves are wanted.
    """

    arguments: Sequence[str]
    files: Mapping[str, str]
    own: str = ""
    leaves: bool = False

    def answer(self, run: RunInFolder) -> dict[str, Any]:
        """What came of it: `document`; `files` that it made and what it `left`, by hash; or `no_room`, or `error`."""
        try:
            return self._answer(HostFiles(), run)
        except NoRoomError as error:
            return {"no_room": str(error)}
        except OSError as error:
            return {"no_room" if error.errno in NO_ROOM else "error": str(error)}
        except FarmError as error:
            return {"error": str(error)}

    def _answer(self, files: HostFiles, run: RunInFolder) -> dict[str, Any]:
        folder = files.job_folder(self.files, self.own)
        outputs = f"{OUTPUTS}/{secrets.token_hex(8)}"
        try:
            document = run([outputs if argument == OUTPUTS else argument for argument in self.arguments], folder)
            made = {path.name: files.keep(path) for path in (folder / outputs).glob("*")}
            left = files.left(folder, self.files) if self.leaves else {}
            return {"document": document, "files": made, "left": left}
        finally:
            shutil.rmtree(folder if self.own else folder / outputs, ignore_errors=True)


def check_room(document: Mapping[str, Any], folder: Path) -> None:
    """Raises NoRoomError, or OSError, where a job went wrong because its host's disk is full.

    The job says so, or what it needed says something else (a compiler, a driver), and there is no room.
    """
    problem, rows = document["error"], document.get("rows", [])
    said = [problem["message"]] if problem and problem["kind"] == NO_ROOM_KIND else []
    for text in (*said, *(row["reason"] for row in rows if row["status"] == Status.NO_ROOM)):
        raise NoRoomError(f"{text} (in {folder})")
    if problem or any(row["status"] != Status.OK for row in rows):
        HostFiles().probe_room()
