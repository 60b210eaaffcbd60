"""Runs a program on a unit to its end, or keeps one that answers line by line; the same over every transport."""

import contextlib
import signal
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any, BinaryIO, Protocol, Self

from farm import safe_text
from farm.transport import base
from farm.transport.base import CompletedProgram
from farm.transport.interruption import CHECK_EVERY_S, Interruption, WaitInterrupted
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, JobError, ProcessEndedError, ProcessKilledError

STDERR_TAIL_BYTES = 4096
MAX_WORDS = 1000
WRITE_TIMEOUT_S = 10.0
GRACE_S = 2.0
KILLED_STATUSES = (128 + signal.SIGKILL, 128 + signal.SIGTERM)

Sink = Callable[[bytes], Any]


class ProgramStreams(Protocol):
    """Moves data between a running program and its callers; leaving it as a context kills the program."""

    broken: bool  # the program does not read its input any more

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def finished(self) -> bool:
        """Whether the program has ended and its output has been read."""

    @property
    def feeding(self) -> bool:
        """Whether some of the input is still to be written."""

    def feed(self, source: BinaryIO, then_close: bool) -> None:
        """Sets the source that the following steps write to stdin."""

    def collect(self, stdout: Sink, stderr: Sink) -> None:
        """Sets the sinks that the following steps give the output to."""

    def step(self, deadline: float) -> bool:
        """Waits for data or the end and handles it; False when `deadline` (monotonic clock) passes first."""

    def end(self, grace_s: float = 0.0) -> int:
        """Ends the input, waits `grace_s` for the program, kills its group; returns the exit status as a shell does."""


def run_to_end(
    name: str,
    streams: ProgramStreams,
    deadline_s: float,
    started: float,
    stdin: BinaryIO | None,
    stdout: BinaryIO | None,
    interruption: Interruption,
) -> CompletedProgram:
    """Moves a program's data until it ends; see Transport.run. `started` is when the deadline began to count."""
    captured, errors = BytesIO(), BytesIO()
    with streams:
        streams.feed(stdin or BytesIO(), then_close=True)
        output = stdout.write if stdout else limited(captured.write, name, base.MAX_OUTPUT_BYTES)
        streams.collect(output, limited(errors.write, name, base.MAX_OUTPUT_BYTES))
        while not streams.finished:
            if not _stepped(streams, started + deadline_s, interruption) and not streams.finished:
                raise DeadlineError(f"{name}: did not end within {deadline_s:g} s")
        return CompletedProgram(streams.end(), captured.getvalue(), errors.getvalue())


class LineProcess:
    """See transport.base.Process."""

    def __init__(self, name: str, streams: ProgramStreams, interruption: Interruption) -> None:
        self._name, self._interruption = name, interruption
        self._received = bytearray()
        self._stderr = bytearray()
        self._hear: Callable[[str], None] | None = None
        self._unheard = b""  # the beginning of a line
        self._streams = streams
        self._streams.collect(self._keep_stdout, self._keep_stderr)

    @property
    def is_running(self) -> bool:
        """Whether neither its end nor that of the link to it is known; takes what has arrived, and does not wait."""
        with contextlib.suppress(JobError):
            self._streams.step(time.monotonic())
            return not self._streams.finished
        return False

    def write_line(self, line: str) -> None:
        """See Process.write_line."""
        command = base.check_line(line)
        if self._streams.finished:
            raise self._lost()
        self._streams.feed(BytesIO(command), then_close=False)
        deadline = time.monotonic() + WRITE_TIMEOUT_S
        while self._streams.feeding:
            self._step(deadline, f"did not read its input within {WRITE_TIMEOUT_S:g} s")
        if self._streams.broken:
            raise self._lost()

    def read_line(self, deadline_s: float) -> str:
        """See Process.read_line."""
        deadline = time.monotonic() + deadline_s
        while (end := self._received.find(b"\n")) < 0:
            self._step(deadline, f"did not answer within {deadline_s:g} s")
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line.decode(errors="replace")

    def listen(self, hear: Callable[[str], None]) -> None:
        """See Process.listen."""
        self._hear = hear

    def close(self) -> int:
        """See Process.close."""
        return self._streams.end(GRACE_S)

    def _step(self, deadline: float, problem: str) -> None:
        """Moves data once; kills the process and raises when it is late, has ended, or prints without end."""
        if self._streams.finished:
            raise self._lost()
        try:
            if not _stepped(self._streams, deadline, self._interruption) and not self._streams.finished:
                raise DeadlineError(f"{self._name}: {problem}")
        except (JobError, WaitInterrupted):
            self._streams.end()
            raise

    def _keep_stdout(self, chunk: bytes) -> None:
        self._received.extend(chunk)
        if len(self._received) > base.MAX_LINE_BYTES:
            raise DeviceError(f"{self._name}: printed more than {base.MAX_LINE_BYTES} bytes that nobody asked for")

    def _keep_stderr(self, chunk: bytes) -> None:
        self._stderr.extend(chunk)
        del self._stderr[:-STDERR_TAIL_BYTES]
        if self._hear is not None:
            *lines, self._unheard = (self._unheard + chunk).split(b"\n")
            self._unheard = self._unheard[-STDERR_TAIL_BYTES:]
            for line in lines:
                self._hear(line.decode(errors="replace"))

    def _lost(self) -> DeviceLostError:
        status = self.close()
        last_words = safe_text.one_line(" ".join(self._stderr.decode(errors="replace").split()))[-MAX_WORDS:]
        kind, cause = ProcessEndedError, ""
        if status in KILLED_STATUSES:
            kind, cause = ProcessKilledError, ", killed by the system, which was short of memory most likely"
        return kind(
            f"{self._name}: ended with {describe_status(status)}{cause}{f': {last_words}' if last_words else ''}"
        )


def _stepped(streams: ProgramStreams, deadline: float, interruption: Interruption) -> bool:
    """See ProgramStreams.step; looks meanwhile whether the wait is to be interrupted."""
    while True:
        interruption.check()
        until = min(deadline, time.monotonic() + CHECK_EVERY_S)
        if streams.step(until) or streams.finished:
            return True
        if until == deadline:
            return False


def limited(sink: Sink, name: str, limit_bytes: int) -> Sink:
    """Wraps a sink so that it raises DeviceError after `limit_bytes`."""
    taken = 0

    def take(chunk: bytes) -> None:
        nonlocal taken
        taken += len(chunk)
        if taken > limit_bytes:
            raise DeviceError(f"{name}: printed more than {limit_bytes} bytes")
        sink(chunk)

    return take


def describe_status(status: int) -> str:
    """Writes an exit status for people: `exit status 139 (SIGSEGV)`."""
    names = {128 + number: number.name for number in signal.Signals}
    return f"exit status {status}{f' ({names[status]})' if status in names else ''}"
