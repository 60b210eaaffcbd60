"""What every unit with a POSIX shell shares, whatever the link: dash, bash, mksh with toybox, busybox.

A program leads a session of its own on the unit (`setsid`), under a shell that waits for it, kills what it left in its
process group and passes its status on. It tells the group's number before it becomes the program, so that the group
can be killed from outside. Files are sent into a folder of their own (`push-...`), verified there and then renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

from farm import atomic_file, safe_text
from farm.transport import base, posix_scripts
from farm.transport.base import Completed
from farm.transport.channel import Channel, RemoteStreams
from farm.transport.posix_scripts import Seen, State, command_line
from farm.transport.program import MAX_WORDS, LineProcess, complete
from runtime.errors import DeviceError, JobError

OPEN_S = 20.0
KILL_S = 5.0
SCRIPT_S = 600.0  # hashes of everything that a job needs, on a slow board
FETCH_S = 3600.0
FILES_S = 60.0
MIN_BYTES_PER_S = 256 * 1024
MAX_FILE_BYTES = 4 * 1024**3

Part = tuple[Path, str]


class _Hashed(io.RawIOBase):
    """Writes to a file, hashes what it writes, and refuses what is larger than any file of ours."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self._hash = hashlib.sha256()
        self._room = MAX_FILE_BYTES

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, chunk: Any) -> int:
        self._room -= len(chunk)
        if self._room < 0:
            raise DeviceError(f"{self._name}: is larger than {MAX_FILE_BYTES} bytes")
        self._hash.update(chunk)
        return self._file.write(chunk)


class PosixTransport(ABC):
    """A unit behind a link; a subclass opens the link and supplies `_open` and `_send`.

    Args:
        name: the unit's name, which every error starts with.
        folder: the unit's own folder, absolute or starting with `~/`; made when it is missing.
    """

    max_command_bytes = 100_000  # Linux allows 128 KiB for the argument of `sh -c`

    def __init__(self, name: str, folder: str) -> None:
        self._name, self._folder = name, folder
        self._processes: list[LineProcess] = []

    @abstractmethod
    def _open(self, command_line: str, deadline: float) -> Channel:
        """Runs a shell's command line on the unit; `deadline` (monotonic clock) is for the opening only.

        Raises DeviceLostError, DeadlineError or DeviceError, each with the unit's name.
        """

    @abstractmethod
    def _send(self, parts: Sequence[Part], deadline_s: float) -> None:
        """Copies local files to new paths below the unit's folder, executable iff they are; makes their folders.

        Nobody reads the paths before the copies are verified. Raises DeviceError (full storage).
        """

    def _fetch(self, remote: str, file: BinaryIO, deadline_s: float) -> None:
        """Copies the content of a file below the unit's folder; it is verified afterwards."""
        completed = self.run(["cat", f"./{remote}"], deadline_s, stdout=file)
        if completed.exit_status:
            raise self._refused(completed)

    def run(
        self,
        argv: Sequence[str],
        deadline_s: float,
        stdin: BinaryIO | None = None,
        stdout: BinaryIO | None = None,
    ) -> Completed:
        """See Transport.run."""
        started = time.monotonic()
        streams = self._start(argv, started + deadline_s)
        return complete(f"{self._name}: {argv[0]}", streams, deadline_s, started, stdin, stdout)

    def start(self, argv: Sequence[str]) -> LineProcess:
        """See Transport.start."""
        process = LineProcess(f"{self._name}: {argv[0]}", self._start(argv, time.monotonic() + OPEN_S))
        self._processes.append(process)
        return process

    def push(self, files: Mapping[str, Path]) -> list[str]:
        """See Transport.push."""
        with ThreadPoolExecutor(1) as pool:  # hashes while the unit does, and while new files travel
            states = {remote: pool.submit(_state, local) for remote, local in files.items()}
            there = self._look(files)
            changed = [
                remote for remote, seen in there.items() if seen.state is None or seen.state != states[remote].result()
            ]
            if changed:
                self._bring({remote: (files[remote], there[remote], states[remote]) for remote in changed})
            return changed

    def pull(self, remote: str, local: Path) -> None:
        """See Transport.pull."""
        state = self._look([remote])[remote].state
        if state is None:
            raise DeviceError(f"{self._name}: {remote}: no such file on the unit")
        with atomic_file.replacing(local) as file:
            hashed = _Hashed(file, f"{self._name}: {remote}")
            self._fetch(remote, cast(BinaryIO, hashed), FETCH_S)
            if hashed.digest != state[1]:
                raise DeviceError(f"{self._name}: {remote}: arrived with another content than the unit has")

    def close(self) -> None:
        """See Transport.close; a subclass closes its link after this."""
        while self._processes:
            with contextlib.suppress(JobError):
                self._processes.pop().close()

    def _start(self, argv: Sequence[str], deadline: float) -> RemoteStreams:
        marker = secrets.token_hex(16) + " "
        line = command_line(self._folder, marker, argv)
        if len(os.fsencode(line)) > self.max_command_bytes:
            raise DeviceError(f"{self._name}: {argv[0]}: its arguments exceed {self.max_command_bytes} bytes")
        return RemoteStreams(self._open(line, deadline), f"{self._name}: {argv[0]}", marker, self._kill)

    def _kill(self, group: int) -> None:
        """Kills a process group over a channel of its own."""
        deadline = time.monotonic() + KILL_S
        channel = self._open(f"kill -9 -{group}", deadline)
        try:
            while channel.exit_status is None and (remaining := deadline - time.monotonic()) > 0:
                channel.receive()
                channel.wait(remaining, writing=False)
        finally:
            channel.close()

    def _look(self, remotes: Iterable[str]) -> dict[str, Seen]:
        """What is at these paths. One round trip for a batch."""
        found: dict[str, Seen] = {}
        for batch in self._batches([[base.check_remote(remote)] for remote in remotes]):
            names = [name for [name] in batch]
            lines = self._script(posix_scripts.LOOK, [f"./{name}" for name in names])
            found |= zip(names, posix_scripts.parse_look(lines, len(names)), strict=True)
        for name, seen in found.items():
            if seen.outside:
                raise DeviceError(f"{self._name}: {name}: a link that leaves the unit's folder")
        return found

    def _bring(self, files: Mapping[str, tuple[Path, Seen, Future[State]]]) -> None:
        """Sends, verifies and renames."""
        deadline_s = FILES_S + sum(_size_bytes(local) for local, _, _ in files.values()) / MIN_BYTES_PER_S
        push = f"push-{secrets.token_hex(8)}"
        parts, moves = self._plan(push, {remote: seen for remote, (_, seen, _) in files.items()})
        try:
            self._send([(files[remote][0], part) for remote, part in parts.items()], deadline_s)
            arrived = self._look(parts.values())
            for remote, (local, _, state) in files.items():
                if arrived[parts[remote]].state != state.result():
                    raise DeviceError(f"{self._name}: {remote}: arrived with another content than {local} has")
            *others, last = self._batches([[f"./{part}", into] for part, into in moves.items()])
            for batch, done in [*((each, "") for each in others), (last, push)]:
                self._script(posix_scripts.INSTALL, [done, *(argument for pair in batch for argument in pair)])
        except JobError:
            with contextlib.suppress(JobError):
                self.run(["rm", "-rf", push], FILES_S)
            raise

    def _plan(self, push: str, files: Mapping[str, Seen]) -> tuple[dict[str, str], dict[str, str]]:
        """Where each file is sent below `push`, and which folders' contents then move into which that are there."""
        parts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for remote, seen in files.items():
            if seen.is_folder:
                raise DeviceError(f"{self._name}: {remote}: cannot be written: a folder is in its place")
            words = remote.split("/")
            split = len(words) - 1 - seen.missing
            number = numbers.setdefault("/".join([".", *words[:split]]), len(numbers))
            parts[remote] = "/".join([push, str(number), *words[split:]])
        return parts, {f"{push}/{number}": into for into, number in numbers.items()}

    def _script(self, script: str, arguments: Sequence[str]) -> list[bytes]:
        """Lines that a script of ours prints; DeviceError with its words when it fails."""
        completed = self.run(["sh", "-c", script, "sh", *arguments], SCRIPT_S)
        if completed.exit_status:
            raise self._refused(completed)
        return completed.stdout.splitlines()

    def _refused(self, completed: Completed) -> DeviceError:
        words = safe_text.word(completed.stderr.decode(errors="replace"), MAX_WORDS)
        return DeviceError(f"{self._name}: {words or f'exit status {completed.exit_status}'}")

    def _batches(self, items: Sequence[list[str]]) -> Iterator[list[list[str]]]:
        """Groups of arguments that fit in one command line."""
        batch: list[list[str]] = []
        room = limit = self.max_command_bytes // 2
        for item in items:
            size = sum(len(os.fsencode(shlex.quote(argument))) + 1 for argument in item)
            if batch and size > room:
                yield batch
                batch, room = [], limit
            batch.append(item)
            room -= size
        if batch:
            yield batch


def _state(local: Path) -> State:
    try:
        with local.open("rb") as file:
            return os.access(local, os.X_OK), hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise JobError(f"{local}: cannot be read: {error.strerror}") from None


def _size_bytes(local: Path) -> int:
    try:
        return local.stat().st_size
    except OSError as error:
        raise JobError(f"{local}: cannot be read: {error.strerror}") from None
