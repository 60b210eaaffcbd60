"""Streams to ports of other machines through SSH, one connection a machine for the whole process.

A stream is a socket of this process, of a pair whose other end is copied to the machine and back: no port is opened
here, which others on this machine could use.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time

import paramiko

from farm.transport import ssh_config, ssh_connection
from farm.transport.ssh_connection import SshConnection, SshTimeouts
from runtime.errors import DeviceLostError

BLOCK_BYTES = 256 * 1024
BROKEN = (OSError, EOFError, paramiko.SSHException)


def open_stream(machine: str, host: str, port: int, deadline: float) -> socket.socket:
    """Connects to a port, as seen from a machine `[user@]host[:port]`; the socket blocks.

    Raises ConnectionRefusedError (nobody listens), ConfigError, DeviceError or DeadlineError.
    """
    return _tunnel(machine).open_stream(host, port, deadline)


@functools.cache
def _tunnel(machine: str) -> _Tunnel:
    return _Tunnel(machine)


class _Tunnel:
    """The connection to one machine, made when it is needed first, and anew after it broke."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._connection: SshConnection | None = None
        self._lock = threading.Lock()

    def open_stream(self, host: str, port: int, deadline: float) -> socket.socket:
        channel = self._connected().open_stream(host, port, deadline)
        near, far = socket.socketpair()
        for copy in (_copy_there, _copy_back):
            threading.Thread(target=copy, args=(far, channel), name=f"tunnel {self._machine}", daemon=True).start()
        near.settimeout(max(0.001, deadline - time.monotonic()))
        return near

    def _connected(self) -> SshConnection:
        with self._lock:
            if self._connection:
                with contextlib.suppress(DeviceLostError):
                    self._connection.check()
                    return self._connection
            target = ssh_config.resolve_host(self._machine, self._machine)
            self._connection = ssh_connection.connect(self._machine, target, SshTimeouts())
            return self._connection


def _copy_there(near: socket.socket, channel: paramiko.Channel) -> None:
    """Copies what is sent until the user closes the socket, which closes the channel: nobody closes one direction."""
    with near, contextlib.suppress(*BROKEN):
        while block := near.recv(BLOCK_BYTES):
            channel.sendall(block)
    with contextlib.suppress(*BROKEN):
        channel.close()


def _copy_back(near: socket.socket, channel: paramiko.Channel) -> None:
    with contextlib.suppress(*BROKEN):
        while block := channel.recv(BLOCK_BYTES):
            near.sendall(block)
    with contextlib.suppress(OSError):  # the user may have closed it
        near.shutdown(socket.SHUT_WR)  # what the user still writes is refused as by TCP: not at once
