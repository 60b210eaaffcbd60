"""The three streams of a local process, served in the caller's thread with total deadlines."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from io import BytesIO
from typing import IO, BinaryIO, Self

from farm.transport.program import Sink
from runtime.errors import DeviceError

CHUNK_BYTES = 256 * 1024
DRAIN_S = 1.0


class LocalStreams:
    """Moves data between a process, which leads its own process group, and its callers.

    The program counts as ended when the process ends, even if its output is still open: what it left in its process
    group is killed, and output of a descendant that left the group is awaited for DRAIN_S only.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        self.broken = False  # the process does not read its input any more
        self._process = process
        self._stdin = process.stdin
        self._source: BinaryIO = BytesIO()
        self._pending = memoryview(b"")
        self._close_when_fed = False
        self._outputs = 0
        self._drain_until: float | None = None
        self._selector = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(process.pid)
        self._selector.register(self._pidfd, selectors.EVENT_READ, self._on_exit)
        os.set_blocking(self._stdin.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def finished(self) -> bool:
        """Whether the process has ended and its output has been read."""
        if self._drain_until is None:
            return self._process.returncode is not None
        return self._outputs == 0 or time.monotonic() > self._drain_until

    @property
    def feeding(self) -> bool:
        """Whether some of the input is still to be written."""
        return not self._stdin.closed and self._stdin in self._selector.get_map()

    def feed(self, source: BinaryIO, then_close: bool) -> None:
        """Sets the source that the following steps write to stdin."""
        self._source, self._close_when_fed = source, then_close
        self._selector.register(self._stdin, selectors.EVENT_WRITE, self._on_writable)

    def collect(self, stdout: Sink, stderr: Sink) -> None:
        """Sets the sinks that the following steps give the output to."""
        self._collect(self._process.stdout, stdout)
        self._collect(self._process.stderr, stderr)

    def step(self, deadline: float) -> bool:
        """Waits for data or the end and handles it; False when `deadline` (monotonic clock) passes first."""
        remaining = (deadline if self._drain_until is None else self._drain_until) - time.monotonic()
        if remaining <= 0:
            return False
        events = self._selector.select(remaining)
        for key, _ in events:
            key.data()
        return bool(events)

    def end(self, grace_s: float = 0.0) -> int:
        """Ends the input, waits `grace_s` for the process, kills its group; returns the exit status as a shell does."""
        if self._process.returncode is None:
            self._stop_feeding(close=True)
            try:
                self._wait(grace_s)
            finally:
                self._kill_group()
                self._process.wait()
                self._close()
        status = self._process.returncode
        return 128 - status if status < 0 else status

    def _collect(self, pipe: IO[bytes] | None, sink: Sink) -> None:
        assert pipe
        self._outputs += 1
        self._selector.register(pipe, selectors.EVENT_READ, lambda: self._on_readable(pipe, sink))

    def _wait(self, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        with contextlib.suppress(DeviceError):  # a sink that is full
            while not self.finished and self.step(deadline):
                pass

    def _on_exit(self) -> None:
        self._selector.unregister(self._pidfd)
        self._kill_group()
        self._drain_until = time.monotonic() + DRAIN_S

    def _on_readable(self, pipe: IO[bytes], sink: Sink) -> None:
        chunk = os.read(pipe.fileno(), CHUNK_BYTES)
        if chunk:
            sink(chunk)
        else:
            self._selector.unregister(pipe)
            self._outputs -= 1

    def _on_writable(self) -> None:
        self._pending = self._pending or memoryview(self._source.read(CHUNK_BYTES))
        if not self._pending:
            return self._stop_feeding(self._close_when_fed)
        try:
            self._pending = self._pending[os.write(self._stdin.fileno(), self._pending) :]
        except BrokenPipeError:
            self.broken = True
            self._stop_feeding(self._close_when_fed)
        return None

    def _stop_feeding(self, close: bool) -> None:
        if self.feeding:
            self._selector.unregister(self._stdin)
        if close:
            self._stdin.close()

    def _kill_group(self) -> None:
        """Kills the process's group; the process is not reaped yet, so that its number still names that group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _close(self) -> None:
        self._selector.close()
        os.close(self._pidfd)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
