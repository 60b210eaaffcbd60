"""The transport of the host: programs run in a private folder on this machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from farm import atomic_file, toolchain
from farm.config.inventory import Unit
from farm.host_system import why_no_linux
from farm.transport import base, storage
from farm.transport.base import CompletedProgram
from farm.transport.interruption import Interruption
from farm.transport.program import LineProcess, run_to_end
from farm.transport.streams import CHUNK_BYTES, LocalStreams
from runtime.errors import DeviceError, FarmError, JobError


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
        self,
        argv: Sequence[str],
        deadline_s: float,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
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
        digest = _sha256(local)
        if target.is_file() and target.stat().st_mode & 0o777 == mode and _sha256(target) == digest:
            return False
        try:
            _copy(local, target, mode)
        except FarmError as error:
            needed, free = storage.space_needed([local.stat().st_size]), shutil.disk_usage(self._folder).free
            raise storage.no_space_error(str(self._folder), needed, free) or storage.refusal_error(str(error)) from None
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


def _not_started(name: str, error: OSError) -> CompletedProgram:
    status = base.NOT_FOUND if isinstance(error, FileNotFoundError) else base.NOT_EXECUTABLE
    return CompletedProgram(status, b"", f"{name}: {error.strerror}\n".encode())


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
