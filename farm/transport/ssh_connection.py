"""An SSH connection to a unit, over jump hosts where there are any; made within a deadline and watched while it lasts.

The login uses keys from files and from the agent; nobody is asked for a password. A silent connection is sent requests
that every SSH server answers. One that stays silent for `dead_s` is closed, and its users get a DeviceLostError.
"""

import contextlib
import dataclasses
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import paramiko

from farm import safe_text
from farm.transport import ssh_backoff, ssh_known_hosts
from farm.transport.ssh_backoff import BACKOFF, Patience
from farm.transport.ssh_config import SshTarget
from farm.transport.ssh_known_hosts import HostKey
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, FarmError

WINDOW_BYTES = 8 * 1024**2
PACKET_BYTES = 32 * 1024
FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
PROHIBITED = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (RFC 4254, 5.1)
PUBLIC = ".pub"
NAME_KEY = "name the right key, as key_file in devices.yml or as IdentityFile with IdentitiesOnly in ~/.ssh/config"
SSHD_REFUSALS = ("Not allowed at this time", "Exceeded MaxStartups")  # what it says in place of its version
STAGE_GRACE_S = 1.0  # how much longer a stage may take than all together, so that the total deadline speaks first

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # else its tracebacks go to the screen

KeyCheck = Callable[[HostKey], None]


@dataclasses.dataclass(frozen=True)
class SshTimeouts:
    """How long connecting may take, and after how much silence a connection is sent a request, and is given up."""

    connect_s: float = 30.0
    idle_s: float = 8.0
    dead_s: float = 24.0


class _Packetizer(paramiko.packet.Packetizer):
    """Notes when the last message arrived, what the server said in clear, and whether it then hung up."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.last_heard_s = time.monotonic()
        self.lines: list[str] = []
        self.hung_up = False

    def readline(self, timeout: float) -> str:
        try:
            self.lines.append(super().readline(timeout))
        except (EOFError, ConnectionError):
            self.hung_up = True
            raise
        return self.lines[-1]

    def read_message(self) -> tuple[int, paramiko.Message]:
        message = super().read_message()
        self.last_heard_s = time.monotonic()
        return message


class SshConnection:
    """One authenticated connection, and those to the jump hosts that it goes through; see `connect`."""

    def __init__(self, unit: str, transports: Sequence[paramiko.Transport], timeouts: SshTimeouts) -> None:
        self._unit, self._transports, self._timeouts = unit, list(transports), timeouts
        self._opening = threading.Lock()  # paramiko keeps one refusal a transport
        self._closed = threading.Event()
        self._reason = ""
        threading.Thread(target=self._watch, name=f"ssh {unit}", daemon=True).start()

    def open(self, deadline: float) -> paramiko.Channel:
        """Opens a session; `deadline` is a time of the monotonic clock."""
        try:
            return self._open("session", None, deadline)
        except paramiko.ChannelException as error:
            raise DeviceError(
                f"{self._unit}: its sshd refuses another session ({_error_text(error)}): end other jobs there, or "
                "raise MaxSessions in its /etc/ssh/sshd_config",
                "session-limit",
            ) from None

    def open_stream(self, host: str, port: int, deadline: float) -> paramiko.Channel:
        """Opens a stream to a port, as seen from the last host; ConnectionRefusedError where nobody listens there."""
        try:
            return self._open("direct-tcpip", (host, port), deadline)
        except paramiko.ChannelException as error:
            if error.code != PROHIBITED:
                raise ConnectionRefusedError(_error_text(error)) from None
            raise DeviceError(
                f"{self._unit}: its sshd allows no tunnel: set AllowTcpForwarding yes in its /etc/ssh/sshd_config"
            ) from None

    def _open(self, kind: str, address: tuple[str, int] | None, deadline: float) -> paramiko.Channel:
        if not self._opening.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineError(f"{self._unit}: no session within the deadline")
        source = ("127.0.0.1", 0) if address else None
        try:
            timeout_s = max(0.1, deadline - time.monotonic())
            return self._transports[-1].open_channel(kind, address, source, timeout=timeout_s)
        except paramiko.ChannelException:
            raise
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.check()
            raise DeadlineError(f"{self._unit}: no session within the deadline: {_error_text(error)}") from None
        finally:
            self._opening.release()

    def check(self) -> None:
        """Raises DeviceLostError when the connection is gone."""
        last = self._transports[-1]
        if self._closed.is_set() or not last.is_active():
            raise DeviceLostError(f"{self._unit}: the SSH connection {self._reason or 'broke'}")

    def settle_and_check(self) -> None:
        """Waits briefly until a broken connection is noticed as such, then does `check`.

        A break closes the channels a moment before the connection counts as closed.
        """
        self._transports[-1].join(0.2)
        self.check()

    def close(self, reason: str = "was closed") -> None:
        """Closes the connection; all its channels then fail with the reason."""
        self._reason = self._reason or reason
        self._closed.set()
        for transport in reversed(self._transports):
            _close_socket(transport)

    def _watch(self) -> None:
        """Sends keepalive requests over a silent connection, and closes one that stays silent."""
        while not self._closed.wait(self._timeouts.idle_s / 2):
            for transport in self._transports:
                packetizer = transport.packetizer
                assert isinstance(packetizer, _Packetizer)
                silent_s = time.monotonic() - packetizer.last_heard_s
                if silent_s > self._timeouts.dead_s:
                    return self.close(f"is dead: nothing was heard for {silent_s:.0f} s")
                if silent_s > self._timeouts.idle_s:  # in a thread of its own: it blocks when nothing is taken either
                    keepalive = threading.Thread(
                        target=_send_keepalive, args=(transport,), name=f"ssh {self._unit} ask", daemon=True
                    )
                    keepalive.start()
        return None


class TurnedAwayError(DeviceError):
    """The server ended the connection before it began, and is left alone for a while."""


def connect(unit: str, target: SshTarget, timeouts: SshTimeouts, patience: Patience | None = None) -> SshConnection:
    """Connects and logs in; raises DeviceError (refused, with a remedy) or DeadlineError.

    A server that turns connections away is asked again, after pauses, where there is patience.
    """
    deadline_s = time.monotonic() + ssh_backoff.PATIENCE_S
    while True:
        attempt = _ConnectAttempt(unit, lambda key: ssh_known_hosts.require_trusted(unit, key))
        try:
            return SshConnection(unit, attempt.run(target, timeouts), timeouts)
        except TurnedAwayError as error:
            pause_s = attempt.pause_s
            if not patience or time.monotonic() + pause_s > deadline_s:
                raise
            patience.say(f"{error}; asked again in {pause_s:.0f} s")
            patience.sleep(pause_s)


def host_key(unit: str, target: SshTarget, timeouts: SshTimeouts) -> HostKey:
    """Fetches the first host key on the way to the unit that is not trusted; the unit's own if all are."""
    try:
        _ConnectAttempt(unit, _HostKeyFound.raise_if_untrusted, only_key=True).run(target, timeouts)
    except _HostKeyFound as found:
        return found.key
    raise AssertionError("an attempt for the key alone ends with the key")


class _HostKeyFound(Exception):
    def __init__(self, key: HostKey) -> None:
        self.key = key

    @staticmethod
    def raise_if_untrusted(key: HostKey) -> None:
        if key.state != "known":
            raise _HostKeyFound(key)


class _ConnectAttempt:
    """One attempt to connect, in a thread, since neither name resolution nor key exchange has a total deadline."""

    def __init__(self, unit: str, check: KeyCheck, only_key: bool = False) -> None:
        self._unit, self._check, self._key_only = unit, check, only_key
        self._transports: list[paramiko.Transport] = []
        self._error: Exception | None = None
        self._abandoned = False
        self.pause_s = 0.0  # how long a server that turned this away is to be left alone

    def run(self, target: SshTarget, timeouts: SshTimeouts) -> list[paramiko.Transport]:
        """Connects within the deadline; returns the connections to the jump hosts and, last, to the unit."""
        connect_s = target.connect_s or timeouts.connect_s
        thread = threading.Thread(target=self._run, args=(target, connect_s), daemon=True)
        thread.start()
        thread.join(connect_s)
        self._abandoned = thread.is_alive()
        error = self._error
        if self._abandoned:
            error = DeadlineError(f"{self._unit}: no connection to {target.label} within {connect_s:g} s")
        if error:
            self._cut()
            raise error
        return self._transports

    def _run(self, target: SshTarget, connect_s: float) -> None:
        try:
            self._connect(target, connect_s, last=True)
        except Exception as error:  # raised again where somebody waits for it
            self._error = error
        if self._abandoned:
            self._cut()

    def _connect(self, target: SshTarget, connect_s: float, last: bool) -> None:
        if target.jump:
            self._connect(target.jump, connect_s, last=False)
        if BACKOFF.left_s(target.server):
            raise self._turned_away(target, "it is left alone since it ended the last connection before that began")
        with self._translated_errors(target):
            transport = paramiko.Transport(
                self._socket(target, connect_s),
                default_window_size=WINDOW_BYTES,
                default_max_packet_size=PACKET_BYTES,
                packetizer_class=_Packetizer,
            )
            self._transports.append(transport)
            stage_s = connect_s + STAGE_GRACE_S
            transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = stage_s
            _set_preferences(transport, ssh_known_hosts.known_algorithms(target))
            self._exchange_keys(transport, target, stage_s)
            key = ssh_known_hosts.evaluate_key(target, transport.get_remote_server_key())
            self._check(key)
            if last and self._key_only:
                raise _HostKeyFound(key)
            _log_in(transport, target)

    def _exchange_keys(self, transport: paramiko.Transport, target: SshTarget, stage_s: float) -> None:
        """Begins the connection; raises TurnedAwayError where the server ends it, unless it is no SSH server."""
        packetizer = transport.packetizer
        assert isinstance(packetizer, _Packetizer)
        try:
            transport.start_client(timeout=stage_s)
        except (paramiko.SSHException, OSError, EOFError) as error:
            refusals = [line for line in packetizer.lines if not line.startswith("SSH-")]
            ended = packetizer.hung_up or isinstance(error, (EOFError, ConnectionError))
            if not ended or not all(line in SSHD_REFUSALS for line in refusals):
                raise
            BACKOFF.refused(target.server)
            said = f", saying {' '.join(refusals)!r}" if refusals else ""
            raise self._turned_away(target, f"it ended the connection before that began{said}") from None
        BACKOFF.admitted(target.server)

    def _turned_away(self, target: SshTarget, reason: str) -> TurnedAwayError:
        self.pause_s = BACKOFF.left_s(target.server)
        return TurnedAwayError(
            f"{self._unit}: {target.label}: no SSH connection: {reason}; is an SSH server there, too busy "
            "(MaxStartups), or has it shut this machine out for some minutes (PerSourcePenalties)?",
            "unreachable",
        )

    def _socket(self, target: SshTarget, connect_s: float) -> socket.socket | paramiko.Channel:
        if self._transports:
            address = (target.host, target.port)
            return self._transports[-1].open_channel("direct-tcpip", address, ("127.0.0.1", 0), timeout=connect_s)
        opened = socket.create_connection((target.host, target.port), connect_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with contextlib.suppress(AttributeError):  # not every system has it
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000)
        return opened

    @contextlib.contextmanager
    def _translated_errors(self, target: SshTarget) -> Iterator[None]:
        """Turns every failure into a FarmError whose one line says what to do."""
        where = f"{self._unit}: {target.label}"
        try:
            yield
        except (FarmError, _HostKeyFound):
            raise
        except socket.gaierror as error:
            raise DeviceError(
                f"{where}: the name {target.host!r} is not found ({error.strerror}); check address: in devices.yml",
                "unreachable",
            ) from None
        except paramiko.ChannelException as error:
            raise DeviceError(f"{where}: the jump host cannot reach it ({_error_text(error)})", "unreachable") from None
        except ConnectionRefusedError:
            raise DeviceError(
                f"{where}: connection refused; is sshd running there (systemctl start ssh), on this port?",
                "unreachable",
            ) from None
        except TimeoutError:
            raise DeadlineError(f"{where}: does not answer; is the board on, and in this network?") from None
        except paramiko.ssh_exception.IncompatiblePeer as error:
            raise DeviceError(
                f"{where}: its SSH server offers nothing that is still safe ({_error_text(error)}): update it there",
                "unreachable",
            ) from None
        except paramiko.AuthenticationException as error:
            raise DeviceError(f"{where}: login refused: {safe_text.word(error, 1000)}", "login") from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise DeviceError(
                f"{where}: no SSH connection: {_error_text(error)}; is an SSH server there?", "unreachable"
            ) from None

    def _cut(self) -> None:
        for transport in reversed(self._transports):
            _close_socket(transport)


def _log_in(transport: paramiko.Transport, target: SshTarget) -> None:
    """Logs in with the first key that is accepted: those that are named, then the others of the agent.

    Raises AuthenticationException, whose text says what was tried and what to do.
    """
    problems: list[str] = []
    tried: list[paramiko.PKey] = []
    with contextlib.closing(_Agent(target.agent)) as agent:
        for key in _keys(target, agent.get_keys(), problems):
            if key in tried:
                continue
            tried.append(key)
            try:
                transport.auth_publickey(target.username, key)
            except paramiko.AuthenticationException:
                if not transport.is_active():
                    problems += [f"then it hung up (MaxAuthTries): {NAME_KEY}"]
                    break
            if transport.is_authenticated():
                return
    if any(key.get_name() == "ssh-rsa" for key in tried) and not _takes_rsa(transport):
        problems.append("its sshd may take RSA keys by SHA-1 only, which nobody signs any more: use one of Ed25519")
    copy_key = f"ssh-copy-id -p {target.port} {target.username}@{target.host}"
    raise paramiko.AuthenticationException(
        "; ".join([f"{len(tried)} key(s) tried", *problems, f"bring yours there: {copy_key}"])
    )


def _takes_rsa(transport: paramiko.Transport) -> bool:
    """Whether the server says that it takes RSA keys in their safe form (RFC 8308, 8332)."""
    told: dict[str, bytes] = transport.server_extensions  # type: ignore[attr-defined]
    return b"rsa-sha2" in told.get("server-sig-algs", b"")


def _keys(target: SshTarget, held: Sequence[paramiko.AgentKey], problems: list[str]) -> Iterator[paramiko.PKey]:
    """The keys to try; says why one cannot be. A key that the agent holds too is used there: it needs no passphrase."""
    by_public = {key.get_base64(): key for key in held}
    for path in target.key_files:
        public = path if path.suffix == PUBLIC else path.with_name(path.name + PUBLIC)
        with contextlib.suppress(OSError, IndexError):
            if key := by_public.get(public.read_text(errors="replace").split()[1]):
                yield key
                continue
        if public == path:
            problems.append(f"{path} is a public key, and the agent does not hold its private one (ssh-add)")
            continue
        try:
            yield paramiko.PKey.from_path(path)
        except (paramiko.PasswordRequiredException, TypeError):
            problems.append(f"{path} has a passphrase (bring it to the agent: ssh-add {path})")
        except (OSError, ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
            problems.append(f"{path} cannot be read ({_error_text(error)})")
    if not target.only_key_files:
        yield from held


class _Agent(paramiko.agent.AgentSSH):
    """The agent behind a socket; one without keys where nobody listens there."""

    def __init__(self, path: str) -> None:
        super().__init__()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            self._connect(connection)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException):
            connection.close()

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]


def _set_preferences(transport: paramiko.Transport, algorithms: Sequence[str]) -> None:
    """Prefers fast ciphers, and the algorithms of known host keys, so that a host with several shows a known one."""
    options = transport.get_security_options()
    preferred = {*algorithms, *(("rsa-sha2-512", "rsa-sha2-256") if "ssh-rsa" in algorithms else ())}
    options.key_types = tuple(sorted(options.key_types, key=lambda name: name not in preferred))
    options.ciphers = tuple(sorted(options.ciphers, key=lambda name: name not in FAST_CIPHERS))


def _send_keepalive(transport: paramiko.Transport) -> None:
    """Sends a request that every server answers, if only by refusing it."""
    with contextlib.suppress(Exception):
        transport.global_request("keepalive@openssh.com", wait=True)


def _close_socket(transport: paramiko.Transport) -> None:
    """Closes the socket under a connection at once; its reading thread then ends by itself."""
    with contextlib.suppress(Exception):
        if isinstance(transport.sock, socket.socket):
            transport.sock.shutdown(socket.SHUT_RDWR)
        transport.sock.close()


def _error_text(error: Exception) -> str:
    """The error's text, made safe to print since it may come from the unit."""
    return safe_text.word(error, 300) or type(error).__name__
