"""What local files are, found out by a thread while unit and link are at work: hashes of large files take long."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from farm.transport import file_digest
from farm.transport.posix_scripts import FileState
from runtime.errors import JobError


class LocalStates:
    """Mode and hash of each file, in their order; leaving it as a context ends the thread after the file at hand.

    Args:
        files: path on the unit -> local file.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._states: dict[str, FileState | JobError] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._find_out, name="local states", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def of(self, remote: str) -> FileState:
        """Waits for the state of one of the files; raises JobError where it cannot be read."""
        with self._changed:
            self._changed.wait_for(lambda: remote in self._states or self._ended)
            state = self._states[remote]
        if isinstance(state, JobError):
            raise state
        return state

    def _find_out(self) -> None:
        try:
            for remote, local in self._files.items():
                if self._ended:
                    break
                state = _state_or_error(local)
                with self._changed:
                    self._states[remote] = state
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()


def _state_or_error(local: Path) -> FileState | JobError:
    try:
        return os.access(local, os.X_OK), file_digest.sha256(local)
    except JobError as error:
        return error
