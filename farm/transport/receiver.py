"""The unit's side of pushes: one program that inspects files, hashes new ones while they arrive, and moves them."""

import shlex
from collections.abc import Sequence

from farm.transport import posix_scripts
from farm.transport.posix_scripts import FileState, PathStatus
from farm.transport.program import LineProcess
from runtime.errors import DeviceError, ProcessEndedError


class Receiver:
    """Speaks with posix_scripts.SERVE, of which one serves all pushes of a connection, one after another.

    Args:
        process: the script, as it was started.
        answer_s: how long an answer may take, on a board that hashes slower than its link brings.

    Attributes:
        is_waiting: for files, or for the word to install them.
    """

    def __init__(self, process: LineProcess, answer_s: float) -> None:
        self._process, self._answer_s = process, answer_s
        self._files, self.is_waiting = 0, False

    @property
    def is_running(self) -> bool:
        """Whether it can be asked: neither it nor the link to it is known to have ended."""
        return self._process.is_running

    def inspect(self, hasher: str, names: Sequence[str]) -> list[PathStatus]:
        """What is at each path; raises ProcessEndedError where the unit cannot tell."""
        self._command("inspect", hasher, *names)
        lines = self._lines(len(names))
        return posix_scripts.parse_inspection([*lines, *self._lines(posix_scripts.hash_lines(lines))], len(names))

    def begin(self, hasher: str, installing: Sequence[str], arriving: Sequence[str]) -> bool:
        """Lets the unit wait for files; False where the program has just ended.

        Args:
            hasher: the unit's program that hashes them.
            installing: the arguments of posix_scripts.INSTALL.
            arriving: a size and a path for each file.
        """
        try:
            self._command("receive", hasher, *installing, "--", *arriving)
        except ProcessEndedError:
            return False
        self._files, self.is_waiting = len(arriving) // 2, True
        return True

    def arrived(self) -> list[FileState | None] | None:
        """The states of the files after all were sent, in their order; None where the unit's program cannot tell."""
        try:
            self._process.write_line("sent")
            lines = self._lines(self._files)
            return [status.state for status in posix_scripts.parse_inspection(lines, len(lines))]
        except (ProcessEndedError, DeviceError):
            return None

    def install(self) -> None:
        """Moves the files to their places; raises DeviceError with what the unit says where it cannot."""
        try:
            self._process.write_line("install")
            self._process.read_line(self._answer_s)
        except ProcessEndedError as error:
            raise DeviceError(str(error)) from None
        self.is_waiting = False

    def close(self) -> None:
        """Ends it, and what it waits for."""
        self._process.close()

    def _command(self, *words: str) -> None:
        self._process.write_line(shlex.join(words))

    def _lines(self, count: int) -> list[bytes]:
        return [self._process.read_line(self._answer_s).encode() for _ in range(count)]


def can_be_asked(words: Sequence[str]) -> bool:
    """Whether these words can be part of a command: a line of UTF-8, while names on a unit may hold anything."""
    return not any("\n" in word or "\r" in word or "\0" in word for word in words) and _is_utf8("".join(words))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
