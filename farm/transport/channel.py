"""A command on a remote unit: the interface that a transport implements (Channel), and its streams with deadlines."""

import contextlib
import time
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO, Protocol

from farm import safe_text
from farm.transport.program import MAX_WORDS, ProgramStreams, Sink
from runtime.errors import DeviceError, DeviceLostError, JobError

CHUNK_BYTES = 256 * 1024
SILENCE_S = 1.0
KILL_WAIT_S = 5.0
KILLED = 128 + 9
MAX_NOISE_BYTES = 256 * 1024


class Channel(Protocol):
    """One command on the unit. Only `wait` blocks; every call may raise DeviceLostError when the link is gone."""

    @property
    def exit_status(self) -> int | None:
        """The command's exit status, 128 + N after signal N; None while it runs."""

    @property
    def exhausted(self) -> bool:
        """Whether both outputs have ended and all of them has been received."""

    def wait(self, timeout_s: float, writing: bool) -> None:
        """Waits for output, for the end or (`writing`) for room for input; may return earlier."""

    def receive(self) -> tuple[bytes, bytes]:
        """Returns what has arrived on stdout and on stderr; empty where nothing has."""

    def send(self, data: memoryview) -> int:
        """Sends input; returns how many bytes were accepted, possibly 0.

        Raises BrokenPipeError when the command does not read its input any more.
        """

    def end_input(self) -> None:
        """Ends the command's input; may be called twice."""

    def close(self) -> None:
        """Closes the channel, even if the command still runs; may be called twice and never raises."""


class RemoteStreams(ProgramStreams):
    """See transport.program.ProgramStreams.

    Args:
        channel: a command that prints `marker`, its process group and a line end on stdout before anything of its own.
        marker: unguessable, so that what a login shell prints before it is never taken for it.
        kill: ends a process group on the unit, over another channel; may raise JobError.
    """

    def __init__(self, channel: Channel, name: str, marker: str, kill: Callable[[int], None]) -> None:
        self.broken = False
        self._channel, self._name, self._marker, self._kill = channel, name, marker.encode(), kill
        self._group: int | None = None
        self._heading = bytearray()
        self._early_stderr = bytearray()
        self._stdout: Sink = _ignore
        self._stderr: Sink = _ignore
        self._source: BinaryIO = BytesIO()
        self._pending = memoryview(b"")
        self._feeding = self._close_when_fed = False
        self._silent_until: float | None = None
        self._status: int | None = None

    @property
    def finished(self) -> bool:
        """See ProgramStreams.finished; after the program's end, SILENCE_S without output ends the output too."""
        if self._status is not None:
            return True
        if self._channel.exit_status is None:
            return False
        return self._channel.exhausted or (self._silent_until is not None and time.monotonic() > self._silent_until)

    @property
    def feeding(self) -> bool:
        """See ProgramStreams.feeding."""
        return self._feeding

    def feed(self, source: BinaryIO, then_close: bool) -> None:
        """See ProgramStreams.feed."""
        self._source, self._close_when_fed, self._feeding = source, then_close, True

    def collect(self, stdout: Sink, stderr: Sink) -> None:
        """See ProgramStreams.collect."""
        self._stdout, self._stderr = stdout, stderr

    def step(self, deadline: float) -> bool:
        """See ProgramStreams.step."""
        while True:
            moved = self._receive()
            if self._send() or moved:
                return True
            limit = deadline if self._silent_until is None else min(deadline, self._silent_until)
            remaining = limit - time.monotonic()
            if remaining <= 0 or self.finished:
                return False
            self._channel.wait(remaining, self._feeding)

    def end(self, grace_s: float = 0.0) -> int:
        """See ProgramStreams.end; KILLED where the unit no longer tells the exit status.

        Raises DeviceError once when the command ended before the program (no folder, no setsid).
        """
        if self._status is not None:
            return self._status
        try:
            self._await_end(grace_s)
        finally:
            self._status = self._kill_and_reap()
            self._channel.close()
        if self._group is None and self._channel.exit_status is not None:
            output = bytes(self._heading + self._early_stderr).decode(errors="replace")
            message = safe_text.one_line(" ".join(output.split()))[-MAX_WORDS:]
            raise DeviceError(f"{self._name}: cannot be started: {message or f'exit status {self._status}'}")
        return self._status

    def _await_end(self, grace_s: float) -> None:
        """Gives the program time to end by itself, and passes its last output on."""
        deadline = time.monotonic() + grace_s
        self._feeding = False
        with contextlib.suppress(JobError):
            if not self.finished:
                self._channel.end_input()
            while not self.finished and self.step(deadline):
                pass

    def _kill_and_reap(self) -> int:
        """Kills the program if it still runs, as soon as its process group is known; returns the exit status."""
        self._stdout = self._stderr = _ignore
        deadline = time.monotonic() + KILL_WAIT_S
        with contextlib.suppress(JobError):
            while self._channel.exit_status is None and self._group is None and self.step(deadline):
                pass
            if self._channel.exit_status is None and self._group is not None:
                self._kill(self._group)
            while self._channel.exit_status is None and self.step(deadline):
                pass
        status = self._channel.exit_status
        return KILLED if status is None else status

    def _receive(self) -> bool:
        stdout, stderr = self._channel.receive()
        if stdout:
            self._on_stdout(stdout)
        if stderr:
            self._on_stderr(stderr)
        received = bool(stdout or stderr)
        if self._channel.exit_status is not None and (received or self._silent_until is None):
            self._silent_until = time.monotonic() + SILENCE_S
            return True
        return received

    def _on_stdout(self, chunk: bytes) -> None:
        if self._group is not None:
            self._stdout(chunk)
            return
        self._heading += chunk
        _, marker, rest = self._heading.partition(self._marker)
        number, line_end, output = rest.partition(b"\n")
        if marker and line_end:
            self._group = _process_group(bytes(number))
            self._heading = bytearray()
            if output:
                self._stdout(bytes(output))
        elif len(self._heading) > MAX_NOISE_BYTES:
            raise DeviceError(f"{self._name}: the login shell of the unit prints without end")

    def _on_stderr(self, chunk: bytes) -> None:
        if self._group is None:
            self._early_stderr = (self._early_stderr + chunk)[-MAX_NOISE_BYTES:]
        self._stderr(chunk)

    def _send(self) -> bool:
        if not self._feeding:
            return False
        self._pending = self._pending or memoryview(self._source.read(CHUNK_BYTES))
        if not self._pending:
            self._stop_feeding()
            return True
        try:
            taken = self._channel.send(self._pending)
        except BrokenPipeError:
            self.broken, self._pending = True, memoryview(b"")
            self._stop_feeding()
            return True
        self._pending = self._pending[taken:]
        return taken > 0

    def _stop_feeding(self) -> None:
        self._feeding = False
        if self._close_when_fed:
            self._channel.end_input()


def _process_group(digits: bytes) -> int:
    """Parses a process group's number; refuses 0 and 1, since killing those groups would kill everything."""
    if not (digits.isdigit() and len(digits) < 10 and int(digits) > 1):
        raise DeviceLostError(f"the unit answers {digits[:40]!r} where a process number belongs")
    return int(digits)


def _ignore(_: bytes) -> None:
    pass
