"""The transport of the host: programs run in a private folder on this machine."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, BinaryIO

from farm import atomic_file, toolchain
from farm.config.inventory import Unit
from farm.host_system import why_no_linux
from farm.transport import base, file_digest, storage
from farm.transport.base import CompletedProgram
from farm.transport.interruption import Interruption
from farm.transport.program import LineProcess, ProgramStreams, Sink, run_to_end
from runtime.errors import DeviceError, FarmError, JobError

CHUNK_BYTES = 256 * 1024
DRAIN_S = 1.0


class LocalStreams(ProgramStreams):
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


def connect(unit: Unit, units_folder: Path, interruption: Interruption | None = None) -> LocalTransport:
    """Opens the unit's folder in `units_folder`; raises DeviceError on a machine that cannot run farmrt."""
    if reason := why_no_linux("running networks here"):
        raise DeviceError(f"{unit.name}: {reason}")
    return LocalTransport(units_folder / unit.name, toolchain.environment(), interruption)


class LocalTransport:
    """Runs programs in `folder`, in the given environment (default: this process's)."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str] | None = None, interruption: Interruption | None = None
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._environment = dict(os.environ if environment is None else environment)
        self._processes: list[LineProcess] = []
        self._interruption = interruption or Interruption()

    def run(
        self, argv: Sequence[str], deadline_s: float, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None
    ) -> CompletedProgram:
        """See Transport.run."""
        started = time.monotonic()
        try:
            streams = LocalStreams(self._popen(argv))
        except OSError as error:
            return _not_started(argv[0], error)
        return run_to_end(argv[0], streams, deadline_s, started, stdin, stdout, self._interruption)

    def start(self, argv: Sequence[str], name: str = "") -> LineProcess:
        """See Transport.start."""
        try:
            process = LineProcess(name or argv[0], LocalStreams(self._popen(argv)), self._interruption)
        except OSError as error:
            raise DeviceError(f"{argv[0]}: cannot be started: {error.strerror}") from None
        self._processes.append(process)
        return process

    def push(self, files: Mapping[str, Path]) -> list[str]:
        """See Transport.push."""
        return [remote for remote, local in files.items() if self._copy_if_changed(local, remote)]

    def pull(self, remote: str, local: Path) -> None:
        """See Transport.pull."""
        source = self._path(remote)
        if not source.is_file():
            raise DeviceError(f"{remote}: no such file on the unit")
        _copy(source, local, 0o644)

    def hash_with(self, program: str) -> None:
        """Does nothing: files of this machine are hashed by this process."""

    def close(self) -> None:
        """See Transport.close."""
        while self._processes:
            self._processes.pop().close()

    def _copy_if_changed(self, local: Path, remote: str) -> bool:
        """Copies a file unless the unit has the same content and mode; returns whether it was copied."""
        target = self._path(remote)
        mode = 0o755 if os.access(local, os.X_OK) else 0o644
        _check_readable(local)
        if target.is_file() and target.stat().st_mode & 0o777 == mode and _have_equal_digests(target, local):
            return False
        try:
            _copy(local, target, mode)
        except FarmError as error:
            needed, free = storage.space_needed([local.stat().st_size]), shutil.disk_usage(self._folder).free
            raise storage.no_space_error(str(self._folder), needed, free) or storage.refusal_error(str(error)) from None
        if not _are_equal(target, local):
            raise DeviceError(f"{remote}: arrived with another content than {local} has")
        return True

    def _popen(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(argv),
            executable=self._folder / argv[0] if "/" in argv[0] else None,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    def _path(self, remote: str) -> Path:
        path = self._folder / base.check_remote(remote)
        if not path.resolve().is_relative_to(self._folder):
            raise DeviceError(f"{remote}: a link that leaves the unit's folder")
        return path


def _not_started(name: str, error: OSError) -> CompletedProgram:
    status = base.NOT_FOUND if isinstance(error, FileNotFoundError) else base.NOT_EXECUTABLE
    return CompletedProgram(status, b"", f"{name}: {error.strerror}\n".encode())


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror}") from None


def _have_equal_digests(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and file_digest.sha256(one) == file_digest.sha256(other)


def _are_equal(one: Path, other: Path) -> bool:
    """Compares young files, of which no digest is known: several times as fast as computing both."""
    with one.open("rb") as first, other.open("rb") as second:
        while piece := first.read(CHUNK_BYTES):
            if piece != second.read(CHUNK_BYTES):
                return False
        return not second.read(1)


def _copy(source: Path, target: Path, mode: int) -> None:
    with source.open("rb") as file, atomic_file.replacing(target, mode) as copy:
        while chunk := file.read(CHUNK_BYTES):
            copy.write(chunk)
