"""Connects to boards over SSH (paramiko): implements the link that posix.py needs, and sends files as a tar stream."""

from __future__ import annotations

import contextlib
import io
import os
import select
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, cast

import paramiko

from farm import safe_text
from farm.config.inventory import Unit
from farm.transport import ssh_config, ssh_connection, ssh_known_hosts
from farm.transport.channel import CHUNK_BYTES, KILLED
from farm.transport.interruption import Interruption
from farm.transport.posix import PosixTransport, Transfer
from farm.transport.posix_scripts import for_any_shell
from farm.transport.ssh_backoff import Patience
from farm.transport.ssh_connection import SshConnection, SshTimeouts
from farm.transport.ssh_known_hosts import HostKey
from runtime.errors import DeviceError, DeviceLostError, JobError

DEFAULT_FOLDER = "~/.farm-unit"
STATUS_POLL_S = 0.25  # paramiko wakes no reader for an exit status that comes without the end of the output
WINDOW_POLL_S = 0.002  # nor a writer when there is room for input


def connect(
    unit: Unit,
    timeouts: SshTimeouts | None = None,
    interruption: Interruption | None = None,
    patience: Patience | None = None,
) -> SshTransport:
    """Connects to a unit whose transport is ssh; raises ConfigError, DeviceError or DeadlineError."""
    target, timeouts = ssh_config.resolve_target(unit), timeouts or SshTimeouts()
    return SshTransport(unit, lambda: ssh_connection.connect(unit.name, target, timeouts, patience), interruption)


def host_key_of(unit: Unit, timeouts: SshTimeouts | None = None) -> HostKey:
    """Fetches the first host key on the way to the unit that is not trusted yet; the unit's own where all are.

    Jump hosts come first. Raises ConfigError, DeviceError or DeadlineError.
    """
    return ssh_connection.host_key(unit.name, ssh_config.resolve_target(unit), timeouts or SshTimeouts())


def host_key_of_machine(machine: str, timeouts: SshTimeouts | None = None) -> HostKey:
    """The same for a machine `[user@]host[:port]` that an adb server runs on."""
    target = ssh_config.resolve_host(machine, machine)
    return ssh_connection.host_key(machine, target, timeouts or SshTimeouts())


def trust(key: HostKey) -> None:
    """Adds the key to known_hosts, where it replaces other keys of that host; raises ConfigError."""
    ssh_known_hosts.add_key(key)


class SshTransport(PosixTransport):
    """See transport.base.Transport."""

    def __init__(
        self, unit: Unit, new_connection: Callable[[], SshConnection], interruption: Interruption | None = None
    ) -> None:
        super().__init__(unit.name, unit.folder or DEFAULT_FOLDER, interruption)
        self._unit, self._new_connection = unit, new_connection
        self._connection = new_connection()

    def close(self) -> None:
        """See Transport.close."""
        super().close()
        self._connection.close()

    def _open(self, command_line: str, deadline: float) -> SshChannel:
        channel = self._connection.open(deadline)
        try:
            channel.exec_command(os.fsencode(for_any_shell(command_line)))
        except (paramiko.SSHException, OSError, EOFError) as error:
            channel.close()
            self._connection.settle_and_check()
            raise DeviceLostError(f"{self._name}: its sshd runs no command: {safe_text.word(error, 300)}") from None
        return SshChannel(channel, self._connection)

    def _kill(self, group: int) -> None:
        """Kills a process group; connects anew where sshd allows no further session on this connection."""
        try:
            super()._kill(group)
        except DeviceError:
            with contextlib.closing(SshTransport(self._unit, self._new_connection)) as other:
                PosixTransport._kill(other, group)

    def _send(self, parts: Sequence[Transfer], deadline_s: float) -> None:
        source = cast(BinaryIO, TarStream(parts))
        completed = self.run(["tar", "-x", "-m", "-o", "-f", "-"], deadline_s, stdin=source)
        if completed.exit_status:
            raise self._refused(completed)


class SshChannel:
    """See transport.channel.Channel."""

    def __init__(self, channel: paramiko.Channel, connection: SshConnection) -> None:
        self._channel, self._connection = channel, connection
        self._readable = channel.fileno()

    @property
    def exit_status(self) -> int | None:
        """See Channel.exit_status."""
        if not self._channel.exit_status_ready():
            return None
        if self._channel.exit_status == -1:  # closed without a status: the shell was killed, or the link is gone
            self._connection.settle_and_check()
            return KILLED
        return self._channel.exit_status

    @property
    def exhausted(self) -> bool:
        """See Channel.exhausted."""
        if not self._channel.eof_received and self._channel.closed:
            self._connection.settle_and_check()
        ended = bool(self._channel.eof_received) or self._channel.closed
        return ended and not self._channel.recv_ready() and not self._channel.recv_stderr_ready()

    def wait(self, timeout_s: float, writing: bool) -> None:
        """See Channel.wait."""
        if self._channel.eof_received and not writing:  # then `_readable` stays so
            self._channel.status_event.wait(timeout_s)
        else:
            select.select([self._readable], [], [], min(timeout_s, WINDOW_POLL_S if writing else STATUS_POLL_S))

    def receive(self) -> tuple[bytes, bytes]:
        """See Channel.receive."""
        stdout = self._channel.recv(CHUNK_BYTES) if self._channel.recv_ready() else b""
        stderr = self._channel.recv_stderr(CHUNK_BYTES) if self._channel.recv_stderr_ready() else b""
        return stdout, stderr

    def send(self, data: memoryview) -> int:
        """See Channel.send."""
        if self._channel.closed or self._channel.eof_sent:
            self._connection.settle_and_check()
            raise BrokenPipeError
        if not self._channel.send_ready():
            return 0
        try:
            return self._channel.send(bytes(data[: ssh_connection.PACKET_BYTES]))
        except (OSError, EOFError, paramiko.SSHException):
            self._connection.settle_and_check()
            raise BrokenPipeError from None

    def end_input(self) -> None:
        """See Channel.end_input."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def close(self) -> None:
        """See Channel.close."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


class TarStream(io.RawIOBase):
    """A readable stream of the files as one tar archive, which is made while it is read."""

    def __init__(self, parts: Sequence[Transfer]) -> None:
        self._pieces = _archive(parts)
        self._rest = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, at most `size`; empty at the end."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        chunk, self._rest = self._rest[:size], self._rest[size:]
        return bytes(chunk)


def _archive(parts: Sequence[Transfer]) -> Iterator[bytes]:
    """Yields the archive; joins small files into large pieces."""
    joined = bytearray()
    for piece in _blocks(parts):
        joined += piece
        if len(joined) >= CHUNK_BYTES:
            yield bytes(joined)
            joined.clear()
    joined += bytes(2 * tarfile.BLOCKSIZE)
    yield bytes(joined)


def _blocks(parts: Sequence[Transfer]) -> Iterator[bytes]:
    for local, name in parts:
        try:
            with local.open("rb") as file:
                entry = tarfile.TarInfo(name)
                entry.size = size = os.fstat(file.fileno()).st_size
                entry.mode = 0o755 if os.access(local, os.X_OK) else 0o644
                entry.mtime = int(time.time())
                yield entry.tobuf()
                while size and (chunk := file.read(min(size, CHUNK_BYTES))):
                    yield chunk
                    size -= len(chunk)
        except OSError as error:
            raise JobError(f"{local}: cannot be read: {error.strerror}") from None
        if size:
            raise JobError(f"{local}: became shorter while it was read")
        yield bytes(-entry.size % tarfile.BLOCKSIZE)
