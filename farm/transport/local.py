"""The host as a unit: programs run in a private folder on this machine."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from farm import atomic_file
from farm.transport import base
from farm.transport.base import Completed
from farm.transport.streams import CHUNK_BYTES, Streams, limited
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, FarmError, JobError

STDERR_TAIL_BYTES = 4096
WRITE_TIMEOUT_S = 10.0
GRACE_S = 2.0


class LocalTransport:
    """Runs programs in `folder`, in the given environment (default: this process's)."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._environment = dict(os.environ if environment is None else environment)
        self._processes: list[LocalProcess] = []

    def run(
        self,
        argv: Sequence[str],
        deadline_s: float,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
    ) -> Completed:
        """See Transport.run."""
        name, deadline = argv[0], time.monotonic() + deadline_s
        captured, errors = BytesIO(), BytesIO()
        try:
            process = self._popen(argv)
        except OSError as error:
            return _not_started(name, error)
        with Streams(process) as streams:
            streams.feed(stdin or BytesIO(), then_close=True)
            output = stdout.write if stdout else limited(captured.write, name, base.MAX_OUTPUT_BYTES)
            streams.collect(process.stdout, output)
            streams.collect(process.stderr, limited(errors.write, name, base.MAX_OUTPUT_BYTES))
            while not streams.finished:
                if not streams.step(deadline) and not streams.finished:
                    raise DeadlineError(f"{name}: did not end within {deadline_s:g} s")
            return Completed(streams.end(), captured.getvalue(), errors.getvalue())

    def start(self, argv: Sequence[str]) -> LocalProcess:
        """See Transport.start."""
        try:
            process = LocalProcess(argv[0], self._popen(argv))
        except OSError as error:
            raise DeviceError(f"{argv[0]}: cannot be started: {error.strerror}") from None
        self._processes.append(process)
        return process

    def push(self, files: Mapping[str, Path]) -> list[str]:
        """See Transport.push."""
        return [remote for remote, local in files.items() if self._copied(local, remote)]

    def pull(self, remote: str, local: Path) -> None:
        """See Transport.pull."""
        source = self._path(remote)
        if not source.is_file():
            raise DeviceError(f"{remote}: no such file on the unit")
        _copy(source, local, 0o644)

    def close(self) -> None:
        """See Transport.close."""
        while self._processes:
            self._processes.pop().close()

    def _copied(self, local: Path, remote: str) -> bool:
        """Copies a file, unless it is there unchanged."""
        target = self._path(remote)
        mode = 0o755 if os.access(local, os.X_OK) else 0o644
        digest = _sha256(local)
        if target.is_file() and target.stat().st_mode & 0o777 == mode and _sha256(target) == digest:
            return False
        try:
            _copy(local, target, mode)
        except FarmError as error:
            raise DeviceError(str(error)) from None
        if _sha256(target) != digest:
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


class LocalProcess:
    """See transport.base.Process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._name = name
        self._received = bytearray()
        self._stderr = bytearray()
        self._streams = Streams(process)
        self._streams.collect(process.stdout, self._keep_stdout)
        self._streams.collect(process.stderr, self._keep_stderr)

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

    def close(self) -> int:
        """See Process.close."""
        return self._streams.end(GRACE_S)

    def _step(self, deadline: float, problem: str) -> None:
        """Moves data; kills the process and raises when it is late, gone, or prints without end."""
        if self._streams.finished:
            raise self._lost()
        try:
            if not self._streams.step(deadline) and not self._streams.finished:
                raise DeadlineError(f"{self._name}: {problem}")
        except JobError:
            self._streams.end()
            raise

    def _keep_stdout(self, chunk: bytes) -> None:
        self._received.extend(chunk)
        if len(self._received) > base.MAX_LINE_BYTES:
            raise DeviceError(f"{self._name}: printed more than {base.MAX_LINE_BYTES} bytes that nobody asked for")

    def _keep_stderr(self, chunk: bytes) -> None:
        self._stderr.extend(chunk)
        del self._stderr[:-STDERR_TAIL_BYTES]

    def _lost(self) -> DeviceLostError:
        status = self.close()
        words = " ".join(self._stderr.decode(errors="replace").split())
        return DeviceLostError(f"{self._name}: ended with {_described(status)}{f': {words}' if words else ''}")


def _not_started(name: str, error: OSError) -> Completed:
    status = base.NOT_FOUND if isinstance(error, FileNotFoundError) else base.NOT_EXECUTABLE
    return Completed(status, b"", f"{name}: {error.strerror}\n".encode())


def _described(status: int) -> str:
    """`exit status 139 (SIGSEGV)`."""
    names = {128 + number: number.name for number in signal.Signals}
    return f"exit status {status}{f' ({names[status]})' if status in names else ''}"


def _copy(source: Path, target: Path, mode: int) -> None:
    with source.open("rb") as file, atomic_file.replacing(target, mode) as copy:
        while chunk := file.read(CHUNK_BYTES):
            copy.write(chunk)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror}") from None
