"""The unit's side of a push: one program that hashes the files while they arrive, then moves them to their places."""

from __future__ import annotations

from farm.transport.base import Process
from farm.transport.posix_scripts import FileState, parse_inspection
from runtime.errors import DeviceError, ProcessEndedError


class Receiver:
    """Speaks with posix_scripts.RECEIVE.

    Args:
        process: the script, started before anything is sent.
        files: how many files are sent.
        answer_s: how long an answer may take, on a board that hashes slower than its link brings.
    """

    def __init__(self, process: Process, files: int, answer_s: float) -> None:
        self._process, self._files, self._answer_s = process, files, answer_s

    def arrived(self) -> list[FileState | None] | None:
        """The states of the files after all were sent, in their order; None where the unit's program cannot tell."""
        try:
            self._process.write_line("sent")
            lines = [self._process.read_line(self._answer_s).encode() for _ in range(self._files)]
            return [status.state for status in parse_inspection(lines, self._files)]
        except (ProcessEndedError, DeviceError):
            return None

    def install(self) -> None:
        """Moves the files to their places; raises DeviceError with what the unit says where it cannot."""
        try:
            self._process.write_line("install")
            self._process.read_line(self._answer_s)
        except ProcessEndedError as error:
            raise DeviceError(str(error)) from None
