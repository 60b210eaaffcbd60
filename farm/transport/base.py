"""The interface to a unit: run a program there, keep one running, send a file, fetch a file.

Paths on the unit are relative, with `/`, and start at the unit's own folder, which is also the working directory of
programs; a path that leaves it is refused. A program is an argument list and never passes through a shell; one whose
name contains `/` is a file in that folder. Deadlines count from the call to its end. When one passes, the program and
everything that it started in its process group are killed on the unit.

Exit statuses are a shell's: 128 + N after signal N, 126 for a program that cannot be executed, 127 for one that is not
there. A program that fails is no error of the transport; every error is a JobError.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from runtime.errors import DeviceError

NOT_EXECUTABLE = 126
NOT_FOUND = 127

MAX_OUTPUT_BYTES = 64 * 1024**2
MAX_LINE_BYTES = 4 * 1024**2


@dataclasses.dataclass(frozen=True)
class CompletedProgram:
    """The result of a program that ended; `stdout` is empty where the caller gave a stream for it."""

    exit_status: int
    stdout: bytes
    stderr: bytes


class Process(Protocol):
    """A program that answers lines with lines, such as `farmrt serve`."""

    def write_line(self, line: str) -> None:
        """Sends one line (without its end); raises DeviceLostError when the program has ended."""

    def read_line(self, deadline_s: float) -> str:
        """Next line of its output, without the end.

        Raises ProcessEndedError with the exit status and the last words of stderr when the program has ended,
        DeadlineError (the program is killed) when no whole line comes in time, DeviceError when it is too long.
        """

    def listen(self, hear: Callable[[str], None]) -> None:
        """Gives each line that it prints on stderr to a listener too, as it is read."""

    def close(self) -> int:
        """Ends its input, kills it if it does not end by itself, and returns its exit status; may be called twice."""


class Transport(Protocol):
    """A connection to one unit."""

    def run(
        self,
        argv: Sequence[str],
        deadline_s: float,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
    ) -> CompletedProgram:
        """Runs a program to its end, with input from and output to the given streams.

        Raises DeadlineError when the deadline passes, DeviceError when stdout or stderr is captured and exceeds
        MAX_OUTPUT_BYTES.
        """

    def start(self, argv: Sequence[str], name: str = "") -> Process:
        """Starts a program that stays; errors call it `name`, by default its first argument."""

    def push(self, files: Mapping[str, Path]) -> list[str]:
        """Copies files, given as path on the unit -> local file; returns the paths that had to be sent.

        Files whose hash and mode are the same on the unit are not sent; one request checks all of them. Each copy's
        hash is verified on the unit. A copy is executable if its original is, and appears whole or not at all.
        """

    def pull(self, remote: str, local: Path) -> None:
        """Copies a file from the unit and verifies its hash; the local file appears whole or not at all."""

    def hash_with(self, program: str) -> None:
        """Has files on the unit hashed by `PROGRAM sha256 FILE...`, a file there, where this works.

        It prints what `sha256sum` does, which on many units is slower than their link. Where it knows the word
        `arriving` too (docs/farmrt.md), files may be hashed while they are sent.
        """

    def close(self) -> None:
        """Ends the processes that still run and closes the connection."""


def check_remote(remote: str) -> str:
    """Returns the path; raises DeviceError for one that would leave the unit's folder."""
    parts = remote.split("/")
    if not remote or remote.startswith("/") or ".." in parts or "\0" in remote or parts[-1] in ("", "."):
        raise DeviceError(f"{remote!r} is no file name inside the unit's folder")
    return remote


def check_line(line: str) -> bytes:
    """Encodes a line with its end; raises DeviceError for text of several lines."""
    if "\n" in line or "\r" in line:
        raise DeviceError(f"a command must be one line: {line!r}")
    return line.encode() + b"\n"
