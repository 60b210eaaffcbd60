"""An SSH server in the test's process, which runs commands as sshd does; and a proxy that breaks connections.

Each command is run by a shell (/bin/sh), leader of its own session, with three separate streams, in a private home.
"""

import contextlib
import os
import select
import socket
import subprocess
import threading
from pathlib import Path
from typing import IO, Self

import paramiko
import psutil

CHUNK_BYTES = 65536
POLL_S = 0.1


class SshServer:
    """Accepts one user's key on a free loopback port.

    Args:
        home: of the user; made when it is missing.
        accepted: the public key that may log in; None for nobody.
        max_sessions: at once on one connection, as sshd's MaxSessions.
    """

    def __init__(self, home: Path, accepted: paramiko.PKey | None, max_sessions: int = 100) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.accepted, self.max_sessions = home, accepted, max_sessions
        self.shell = "/bin/sh"
        self.tells_algorithms = True  # of keys for the login, as servers since 2016 do
        self.key: paramiko.PKey = paramiko.ECDSAKey.generate()
        self.connections: list[paramiko.Transport] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()
        self._thread.join()
        for process in self.processes:
            _kill_tree(process)

    def cut(self) -> None:
        """Ends all connections as a pulled plug with a reset would."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.join()
        self.connections.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            connection = _Connection(client)
            connection.add_server_key(self.key)
            connection.server_sig_algs = self.tells_algorithms
            self.connections.append(connection)
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                connection.start_server(event=threading.Event(), server=_Session(self, connection))


class _Connection(paramiko.Transport):
    """What a channel carries follows the word that its request succeeded, as sshd's does, however short it is."""

    def __init__(self, client: socket.socket) -> None:
        super().__init__(client)
        self.following: list[threading.Thread] = []

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)
        if data.asbytes().startswith(paramiko.common.cMSG_CHANNEL_SUCCESS):
            while self.following:
                self.following.pop(0).start()


class _Session(paramiko.ServerInterface):
    def __init__(self, server: SshServer, connection: _Connection) -> None:
        self._server, self._connection = server, connection
        self._open = 0

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_SUCCESSFUL if key == self._server.accepted else paramiko.common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if self._open >= self._server.max_sessions:
            return paramiko.common.OPEN_FAILED_CONNECT_FAILED
        self._open += 1
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        try:
            onward = socket.create_connection(destination)
        except OSError:
            return paramiko.common.OPEN_FAILED_CONNECT_FAILED
        threading.Thread(target=self._forward, args=(chanid, onward), daemon=True).start()
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        process = subprocess.Popen(
            [self._server.shell, "-c", os.fsdecode(command)],
            cwd=self._server.home,
            env={**os.environ, "HOME": str(self._server.home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._server.processes.append(process)
        self._connection.following.append(threading.Thread(target=self._serve, args=(channel, process), daemon=True))
        return True

    def _serve(self, channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout and process.stderr
        threading.Thread(target=_feed, args=(channel, process.stdin), daemon=True).start()
        pumps = [
            threading.Thread(target=_pump, args=(process.stdout, channel.sendall), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr, channel.sendall_stderr), daemon=True),
        ]
        for pump in pumps:
            pump.start()
        status = process.wait()
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            if status >= 0:
                channel.send_exit_status(status)
            for pump in pumps:
                pump.join()
            channel.close()
        self._open -= 1

    def _forward(self, chanid: int, onward: socket.socket) -> None:
        channel = self._connection.accept(10)
        assert channel and channel.get_id() == chanid
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException), onward, channel:
            _relay(channel, onward)


class BreakableProxy:
    """Forwards connections to a port until it is told to break them.

    Each of `farewells` ends a connection that would come through: it is sent in place of what the server says.
    """

    def __init__(self, port: int) -> None:
        self.farewells: list[bytes] = []
        self._onward_port = port
        self._stalled = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._cut_after: int | None = None
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def stall(self) -> None:
        """Forwards nothing any more, and closes nothing: a half-open connection."""
        self._stalled.set()

    def cut(self) -> None:
        """Ends all connections."""
        for pair in self._pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, size_bytes: int) -> None:
        """Ends all connections when so much more came from the client."""
        self._cut_after = size_bytes

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            if self.farewells:
                with client:
                    client.sendall(self.farewells.pop(0))
                continue
            onward = socket.create_connection(("127.0.0.1", self._onward_port))
            self._pairs.append((client, onward))
            self._threads.append(threading.Thread(target=self._serve, args=(client, onward), daemon=True))
            self._threads[-1].start()

    def _serve(self, client: socket.socket, onward: socket.socket) -> None:
        with client, onward, contextlib.suppress(OSError):
            while True:
                for source in select.select([client, onward], [], [])[0]:
                    chunk = source.recv(CHUNK_BYTES)
                    if not chunk:
                        return
                    self._pass(chunk, client, onward, source is client)

    def _pass(self, chunk: bytes, client: socket.socket, onward: socket.socket, from_client: bool) -> None:
        if self._stalled.is_set():
            return
        (onward if from_client else client).sendall(chunk)
        if from_client and self._cut_after is not None:
            self._cut_after -= len(chunk)
            if self._cut_after < 0:
                self._cut_after = None
                self.cut()


def _feed(channel: paramiko.Channel, pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException), pipe:
        while chunk := channel.recv(CHUNK_BYTES):
            view = memoryview(chunk)
            while view:
                view = view[pipe.write(view) :]


def _pump(pipe: IO[bytes], send: object) -> None:
    assert callable(send)
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException), pipe:
        while chunk := pipe.read(CHUNK_BYTES):
            send(chunk)


def _relay(channel: paramiko.Channel, destination: socket.socket) -> None:
    while True:
        readable, _, _ = select.select([channel, destination], [], [])
        if channel in readable:
            chunk = channel.recv(CHUNK_BYTES)
            if not chunk:
                return
            destination.sendall(chunk)
        if destination in readable:
            chunk = destination.recv(CHUNK_BYTES)
            if not chunk:
                return
            channel.sendall(chunk)


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """With what the command started, in whatever session."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()
