"""Runs a phone's commands as processes of this machine, with pipes or a terminal, and ends each of them surely."""

import asyncio
import contextlib
import dataclasses
import enum
import fcntl
import math
import os
import pty
import signal
import struct
import subprocess
import termios
import time
import tty
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import psutil

CHUNK_BYTES = 256 * 1024
GRACE_S = 0.5  # between SIGHUP and SIGKILL
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
KILL_ROUNDS = 20  # a process may start another one while it is killed
PHONE_VARIABLE = "FARM_EMULATED_PHONE"  # environment variable of every process of a phone: its folder
# A session's leader that opens a terminal gets it as its controlling one.
ENTER_TERMINAL = 'terminal=$1; shift; : <>"$terminal"; exec "$@"'


class StdioMode(enum.Enum):
    """How a command's standard streams are connected."""

    PIPES = "pipes"
    JOINED_PIPES = "pipes, stderr among stdout"
    TERMINAL = "terminal"  # line editing, and \\n becomes \\r\\n
    RAW_TERMINAL = "raw terminal"  # bytes as they are, stderr among stdout


class Pipe:
    """One end of a pipe or a terminal, read and written without blocking the event loop."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._open = True
        self._waiting: list[asyncio.Event] = []

    async def read(self) -> bytes:
        """Reads what is available, waiting for it; empty at the end."""
        loop = asyncio.get_running_loop()
        while self._open:
            try:
                return os.read(self._descriptor, CHUNK_BYTES)
            except BlockingIOError:
                await self._until(loop.add_reader, loop.remove_reader)
            except OSError:  # a terminal that nobody has open any more
                break
        return b""

    async def write(self, data: bytes) -> None:
        """Writes all of it; drops what nobody reads any more."""
        loop, rest = asyncio.get_running_loop(), memoryview(data)
        while rest and self._open:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._until(loop.add_writer, loop.remove_writer)
            except OSError:
                break

    def resize(self, rows: int, columns: int) -> None:
        """Sets a terminal's size; does nothing to a pipe."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def close(self) -> None:
        """Closes the end and wakes its readers and writers; may be called twice."""
        if self._open:
            self._open = False
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._descriptor)
            loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            for ready in self._waiting:
                ready.set()

    async def _until(self, add: Callable[..., None], remove: Callable[[int], object]) -> None:
        ready = asyncio.Event()
        self._waiting.append(ready)
        add(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            self._waiting.remove(ready)
            if self._open:
                remove(self._descriptor)


class RunningCommand:
    """A command that was started, as the leader of its own session.

    Attributes:
        stdin, stdout: two pipes, or the same terminal twice.
        stderr: None where it goes with stdout.
        used_s: processor time, once it has ended.
    """

    def __init__(self, argv: list[str], folder: Path, environment: Mapping[str, str], stdio: StdioMode) -> None:
        self.stderr: Pipe | None = None
        if stdio in (StdioMode.PIPES, StdioMode.JOINED_PIPES):
            stderr = subprocess.PIPE if stdio is StdioMode.PIPES else subprocess.STDOUT
            self._process = _popen(argv, folder, environment, subprocess.PIPE, stderr)
            self.stdin, self.stdout, *rest = (Pipe(descriptor) for descriptor in _detached_descriptors(self._process))
            self.stderr = rest[0] if rest else None
        else:
            self._process, terminal = _popen_on_terminal(argv, folder, environment, stdio)
            self.stdin = self.stdout = Pipe(terminal)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._forced_status: int | None = None
        self.stopped = False
        self.used_s = 0.0

    @property
    def session(self) -> int:
        """The number of the command's session and process."""
        return self._process.pid

    async def wait(self) -> int:
        """Waits for the end; returns the exit status as a shell does."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)
        self._reap()
        status: int = self._process.returncode
        return self._forced_status if self._forced_status is not None else 128 - status if status < 0 else status

    def signal(self, number: int) -> None:
        """Sends a signal to the command's process group."""
        if self._process.returncode is None:  # else the number may be another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """Stops the command for good."""
        self.stopped = True
        self.signal(signal.SIGSTOP)

    def fail(self, exit_status: int) -> None:
        """Kills the command; its exit status will be the given one."""
        self._forced_status = exit_status
        self.signal(signal.SIGKILL)

    async def end(self) -> None:
        """Ends the command: closes its streams, sends SIGHUP, then SIGKILL to what is left."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                pipe.close()
        try:
            self.signal(signal.SIGHUP)
            self.signal(signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await self.wait()
        finally:
            self.signal(signal.SIGKILL)
            self._reap()
            os.close(self._pidfd)

    def _reap(self) -> None:
        """Waits for the process as Popen does, and notes its processor time."""
        if self._process.returncode is None:
            _, status, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self.used_s = usage.ru_utime + usage.ru_stime


@dataclasses.dataclass(frozen=True)
class Descendant:
    """A process that descends from the process `leader`, or is it; `used_s` is its processor time."""

    number: int
    leader: int
    used_s: float


@dataclasses.dataclass(frozen=True)
class _ProcessTable:
    """All processes of this machine at one moment: their parents, and their processor time."""

    read_s: float
    parents: Mapping[int, int]
    used_s: Mapping[int, float]


_last_table = _ProcessTable(-math.inf, {}, {})


def descendants(leaders: Collection[int], max_age_s: float = 0.0) -> list[Descendant]:
    """Lists the processes that descend from the leaders, and these, even where they made sessions of their own.

    Where they may be `max_age_s` old, many phones of one process share what one of them has read.
    """
    if not leaders:
        return []
    global _last_table
    table = _last_table
    if time.monotonic() - table.read_s > max_age_s:
        table = _last_table = _read_processes()
    numbered = ((number, _leader(number, table.parents, leaders)) for number in table.parents)
    return [Descendant(number, leader, table.used_s[number]) for number, leader in numbered if leader is not None]


def _read_processes() -> _ProcessTable:
    read_s, parents, used_s = time.monotonic(), dict[int, int](), dict[int, float]()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # What follows the name, which may hold blanks: state, parent, group, session, ..., user and system time.
            fields = entry.read_bytes().rpartition(b")")[2].split()
            number = int(entry.parent.name)
            parents[number] = int(fields[1])
            used_s[number] = (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
    return _ProcessTable(read_s, parents, used_s)


def _leader(number: int, parents: Mapping[int, int], leaders: Collection[int]) -> int | None:
    """The process itself or its nearest ancestor that is a leader."""
    while number not in leaders:
        if number not in parents:
            return None
        number = parents[number]
    return number


def phone_processes(folder: Path) -> Iterator[psutil.Process]:
    """Yields every process of the phone with that folder, whatever its session, by its environment."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(PHONE_VARIABLE) == str(folder):
                yield process


def kill_all(folder: Path) -> None:
    """Kills every process of the phone."""
    for _ in range(KILL_ROUNDS):
        alive = list(phone_processes(folder))
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not alive:
            break


def _popen(
    argv: list[str], folder: Path, environment: Mapping[str, str], stream: int, stderr: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=dict(environment),
        stdin=stream,
        stdout=stream,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
    )


def _detached_descriptors(process: subprocess.Popen[bytes]) -> list[int]:
    """Duplicates the descriptors of a process's pipes, so that no file object closes them."""
    files = [file for file in (process.stdin, process.stdout, process.stderr) if file]
    descriptors = [os.dup(file.fileno()) for file in files]
    for file in files:
        file.close()
    return descriptors


def _popen_on_terminal(
    argv: list[str], folder: Path, environment: Mapping[str, str], stdio: StdioMode
) -> tuple[subprocess.Popen[bytes], int]:
    controller, terminal = pty.openpty()
    try:
        if stdio is StdioMode.RAW_TERMINAL:
            tty.setraw(terminal)
        entered = ["/bin/sh", "-c", ENTER_TERMINAL, "sh", os.ttyname(terminal), *argv]
        return _popen(entered, folder, environment, terminal, terminal), controller
    except BaseException:
        os.close(controller)
        raise
    finally:
        os.close(terminal)
