"""The login of an SSH connection: keys from files and from the agent; nobody is asked for a password."""

import contextlib
import socket
from collections.abc import Iterator, Sequence

import paramiko

from farm import safe_text
from farm.transport.ssh_config import SshTarget

PUBLIC = ".pub"
NAME_KEY = "name the right key, as key_file in devices.yml or as IdentityFile with IdentitiesOnly in ~/.ssh/config"


def log_in(transport: paramiko.Transport, target: SshTarget) -> None:
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
            problems.append(f"{path} cannot be read ({error_text(error)})")
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


def error_text(error: Exception) -> str:
    """The error's text, made safe to print since it may come from the unit."""
    return safe_text.word(error, 300) or type(error).__name__
