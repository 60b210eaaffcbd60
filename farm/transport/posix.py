"""The base of all transports to a remote unit with a POSIX shell: dash, bash, mksh with toybox, busybox.

A program leads a session of its own on the unit (`setsid`). A shell waits for it, kills what it left in its process
group and passes its exit status on. The program's shell prints the group's number before it becomes the program, so
that the group can be killed from outside. Files are sent into a folder `push-...`, verified there and then renamed.
"""

import contextlib
import hashlib
import io
import os
import secrets
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from farm import atomic_file, safe_text
from farm.transport import base, posix_scripts, storage
from farm.transport.base import CompletedProgram
from farm.transport.channel import Channel, RemoteStreams
from farm.transport.interruption import Interruption
from farm.transport.local_states import LocalStates
from farm.transport.posix_scripts import PathStatus, command_line
from farm.transport.program import MAX_WORDS, LineProcess, run_to_end
from farm.transport.receiver import Receiver, can_be_asked
from runtime.errors import DeviceError, DeviceLostError, JobError, ProcessEndedError

OPEN_S = 20.0
KILL_S = 5.0
SCRIPT_S = 600.0  # hashes of everything that a job needs, on a slow board
FETCH_S = 3600.0
FILES_S = 60.0
MIN_BYTES_PER_S = 256 * 1024
MAX_FILE_BYTES = 4 * 1024**3
NOT_EXECUTABLE = (
    "nothing in {folder} may be executed (`mount` there says noexec, or a file system without modes): name another "
    "`folder` in devices.yml"
)

Transfer = tuple[Path, str]


class _HashingWriter(io.RawIOBase):
    """Writes to a file and hashes what it writes; refuses more than the file had, which may grow meanwhile."""

    def __init__(self, file: BinaryIO, name: str, size_bytes: int = MAX_FILE_BYTES) -> None:
        self._file, self._name, self._size_bytes = file, name, size_bytes
        self._hash = hashlib.sha256()
        self._room = size_bytes

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, chunk: Any) -> int:
        self._room -= len(chunk)
        if self._room < 0:
            raise DeviceError(f"{self._name}: has more than the {self._size_bytes} bytes that it was said to have")
        self._hash.update(chunk)
        return self._file.write(chunk)


class PosixTransport(ABC):
    """A unit behind a link; a subclass opens the link and supplies `_open` and `_send`.

    Args:
        name: the unit's name; every error starts with it.
        folder: the unit's folder for farm, absolute or starting with `~/`; made when it is missing.
        interruption: ends a wait for a program.
    """

    max_command_bytes = 100_000  # Linux allows 128 KiB for the argument of `sh -c`
    keeps_receiver = False  # whether the link carries a program that stays, beside all others, at no risk

    def __init__(self, name: str, folder: str, interruption: Interruption | None = None) -> None:
        self._name, self._folder = name, folder
        self._interruption = interruption or Interruption()
        self._processes: list[LineProcess] = []
        self._hasher = ""
        self._receiver: Receiver | None = None

    @abstractmethod
    def _open(self, command_line: str, deadline: float) -> Channel:
        """Runs a shell's command line on the unit; `deadline` (monotonic clock) is for the opening only.

        Raises DeviceLostError, DeadlineError or DeviceError, each with the unit's name.
        """

    @abstractmethod
    def _send(self, parts: Sequence[Transfer], deadline_s: float) -> None:
        """Copies local files to new paths below the unit's folder, keeps the executable bit, and makes folders.

        Nobody reads the paths before the copies are verified. Raises DeviceError (full storage).
        """

    def _fetch(self, remote: str, file: BinaryIO, deadline_s: float) -> None:
        """Copies a file below the unit's folder into `file`; the caller verifies the content."""
        completed = self.run(["cat", f"./{remote}"], deadline_s, stdout=file)
        if completed.exit_status:
            raise self._refused(completed)

    def run(
        self, argv: Sequence[str], deadline_s: float, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None
    ) -> CompletedProgram:
        """See Transport.run."""
        started = time.monotonic()
        streams = self._start(argv, started + deadline_s)
        return run_to_end(f"{self._name}: {argv[0]}", streams, deadline_s, started, stdin, stdout, self._interruption)

    def start(self, argv: Sequence[str], name: str = "") -> LineProcess:
        """See Transport.start."""
        streams = self._start(argv, time.monotonic() + OPEN_S)
        process = LineProcess(f"{self._name}: {name or argv[0]}", streams, self._interruption)
        self._processes.append(process)
        return process

    def push(self, files: Mapping[str, Path]) -> list[str]:
        """See Transport.push."""
        with LocalStates(files) as states:
            statuses = self._inspect(files)
            changed = [
                remote
                for remote, status in statuses.items()
                if status.state is None or status.state != states.of(remote)
            ]
            if changed:
                self._install({remote: (files[remote], statuses[remote]) for remote in changed}, states)
            return changed

    def pull(self, remote: str, local: Path) -> None:
        """See Transport.pull."""
        state = self._inspect([remote])[remote].state
        if state is None:
            raise DeviceError(f"{self._name}: {remote}: no such file on the unit")
        with atomic_file.replacing(local) as file:
            [size] = self._run_script('wc -c <"$1"', [f"./{remote}"])
            size_bytes = int(size) if size.strip().isdigit() else MAX_FILE_BYTES
            hashed = _HashingWriter(file, f"{self._name}: {remote}", min(size_bytes, MAX_FILE_BYTES))
            self._fetch(remote, cast(BinaryIO, hashed), FETCH_S)
            if hashed.digest != state[1]:
                raise DeviceError(f"{self._name}: {remote}: arrived with another content than the unit has")

    def hash_with(self, program: str) -> None:
        """See Transport.hash_with."""
        self._hasher = f"./{base.check_remote(program)}"

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
        """Kills a process group over a separate channel."""
        deadline = time.monotonic() + KILL_S
        channel = self._open(f"kill -9 -{group}", deadline)
        try:
            while channel.exit_status is None and (remaining := deadline - time.monotonic()) > 0:
                channel.receive()
                channel.wait(remaining, writing=False)
        finally:
            channel.close()

    def _inspect(self, remotes: Iterable[str]) -> dict[str, PathStatus]:
        """Reads what is at each path, with one round trip a batch."""
        statuses: dict[str, PathStatus] = {}
        for batch in self._batches([[base.check_remote(remote)] for remote in remotes]):
            names = [name for [name] in batch]
            statuses |= zip(names, self._inspect_batch([f"./{name}" for name in names]), strict=True)
        for name, status in statuses.items():
            if status.outside:
                raise DeviceError(f"{self._name}: {name}: a link that leaves the unit's folder")
            if status.state and not status.state[1]:
                statuses[name] = PathStatus((status.state[0], self._read_back(name)))
        return statuses

    def _read_back(self, remote: str) -> str:
        """The hash of a file on a unit that cannot tell it: before farmrt, which can, is there on Android 7."""
        with Path(os.devnull).open("wb") as nowhere:
            hashed = _HashingWriter(nowhere, f"{self._name}: {remote}")
            self._fetch(remote, cast(BinaryIO, hashed), FETCH_S)
        return hashed.digest

    def _inspect_batch(self, names: Sequence[str]) -> list[PathStatus]:
        if receiver := self._running_receiver(names):
            with contextlib.suppress(ProcessEndedError):  # the script says why, where it fails too
                return receiver.inspect(self._hasher, names)
        return posix_scripts.parse_inspection(
            self._run_script(posix_scripts.INSPECT, [self._hasher, *names]), len(names)
        )

    def _running_receiver(self, words: Sequence[str]) -> Receiver | None:
        """The program on the unit that serves pushes, started where none runs; None where it cannot take the words."""
        if not self.keeps_receiver or not can_be_asked(words):
            return None
        if self._receiver is None or not self._receiver.is_running:
            self._receiver = Receiver(self.start(["sh", "-c", posix_scripts.SERVE], "push"), SCRIPT_S)
        return self._receiver

    def _install(self, files: Mapping[str, tuple[Path, PathStatus]], states: LocalStates) -> None:
        """Sends the files into a folder of this push, verifies their hashes, and moves them to their places."""
        sizes = {remote: _size_bytes(local) for remote, (local, _) in files.items()}
        push = f"push-{secrets.token_hex(8)}"
        parts, moves = self._plan_transfers(push, {remote: status for remote, (_, status) in files.items()})
        try:
            with self._receiving(push, {parts[remote]: size for remote, size in sizes.items()}, moves) as receiver:
                self._send(
                    [(files[remote][0], part) for remote, part in parts.items()],
                    FILES_S + sum(sizes.values()) / MIN_BYTES_PER_S,
                )
                if receiver and receiver.arrived() == [states.of(remote) for remote in files]:
                    receiver.install()
                    return
            self._verify(parts, {remote: local for remote, (local, _) in files.items()}, states)
            self._move(push, moves)
        except JobError as error:
            raise self._explained(error, push, storage.space_needed(sizes.values())) from None

    @contextlib.contextmanager
    def _receiving(self, push: str, sizes: Mapping[str, int], moves: Mapping[str, str]) -> Iterator[Receiver | None]:
        """Has the unit hash files while they arrive; None where it or the link cannot."""
        installing = [push, *(word for part, into in moves.items() for word in (f"./{part}", into))]
        arriving = [word for part, size in sizes.items() for word in (str(size), f"./{part}")]
        words = [self._hasher, *installing, *arriving]
        fits = self._hasher and len(list(self._batches([[word] for word in words]))) == 1
        receiver = self._running_receiver(words) if fits else None
        if receiver is None or not receiver.begin(self._hasher, installing, arriving):
            yield None
            return
        try:
            yield receiver
        finally:
            if receiver.is_waiting:
                receiver.close()

    def _verify(self, parts: Mapping[str, str], files: Mapping[str, Path], states: LocalStates) -> None:
        arrived = self._inspect(parts.values())
        for remote, local in files.items():
            (is_executable, digest), found = states.of(remote), arrived[parts[remote]].state
            if is_executable and found == (False, digest):
                raise DeviceError(f"{self._name}: {remote}: {NOT_EXECUTABLE.format(folder=self._folder)}")
            if found != (is_executable, digest):
                raise DeviceError(f"{self._name}: {remote}: arrived with another content than {local} has")

    def _move(self, push: str, moves: Mapping[str, str]) -> None:
        """Moves the content of folders of a push to its places, and removes the push."""
        *others, last = self._batches([[f"./{part}", into] for part, into in moves.items()])
        for batch, finished_push in [*((batch, "") for batch in others), (last, push)]:
            self._run_script(posix_scripts.INSTALL, [finished_push, *(argument for pair in batch for argument in pair)])

    def _explained(self, error: JobError, push: str, needed_bytes: int) -> JobError:
        """Removes what arrived; the error of the push: that there is no room on the unit, where this is so.

        Some adbds end the connection where they should say it.
        """
        with contextlib.suppress(JobError):
            self.run(["rm", "-rf", push], FILES_S)
            if not isinstance(error, (DeviceError, DeviceLostError)):
                return error
            line = self.run(["sh", "-c", storage.FREE], FILES_S).stdout.decode(errors="replace")
            folder = f"{self._name}: {self._folder}"
            return storage.no_space_error(folder, needed_bytes, storage.free_bytes(line)) or error
        return error

    def _plan_transfers(self, push: str, files: Mapping[str, PathStatus]) -> tuple[dict[str, str], dict[str, str]]:
        """Decides where each file is sent below `push`, and which folders' contents are moved afterwards.

        Returns:
            path on the unit -> path below `push`; folder below `push` -> existing folder that gets its content.
        """
        parts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for remote, status in files.items():
            if status.is_folder:
                raise DeviceError(f"{self._name}: {remote}: cannot be written: a folder is in its place")
            components = remote.split("/")
            split = len(components) - 1 - status.missing
            number = numbers.setdefault("/".join([".", *components[:split]]), len(numbers))
            parts[remote] = "/".join([push, str(number), *components[split:]])
        return parts, {f"{push}/{number}": into for into, number in numbers.items()}

    def _run_script(self, script: str, arguments: Sequence[str]) -> list[bytes]:
        """Runs a script on the unit and returns its output's lines; raises DeviceError with its stderr if it fails."""
        completed = self.run(["sh", "-c", script, "sh", *arguments], SCRIPT_S)
        if completed.exit_status:
            raise self._refused(completed)
        return completed.stdout.split(b"\n")[:-1]  # a name may hold a carriage return, which splitlines breaks

    def _refused(self, completed: CompletedProgram) -> DeviceError:
        message = safe_text.word(completed.stderr.decode(errors="replace"), MAX_WORDS)
        return storage.refusal_error(f"{self._name}: {message or f'exit status {completed.exit_status}'}")

    def _batches(self, items: Sequence[list[str]]) -> Iterator[list[list[str]]]:
        """Groups items so that each group's arguments fit in one command line."""
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


def _size_bytes(local: Path) -> int:
    try:
        return local.stat().st_size
    except OSError as error:
        raise JobError(f"{local}: cannot be read: {error.strerror}") from None
