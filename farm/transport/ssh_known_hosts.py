"""Reads and extends OpenSSH's known_hosts files, which say which host keys are trusted.

A host whose key is unknown, or differs from the known one, is refused. `farm devices trust NAME` shows the key's
fingerprint, and adds the key or replaces the old one.
"""

import base64
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import paramiko

from farm import atomic_file, host_system
from farm.transport.ssh_config import SshTarget
from runtime.errors import ConfigError, DeviceError

REVOKED = "@revoked"


@dataclasses.dataclass(frozen=True)
class HostKey:
    """A key with which a host proved who it is.

    Attributes:
        host: the host's name in known_hosts: `host` or `[host]:port`.
        algorithm: `ssh-ed25519`, ...
        key: base64, as known_hosts holds it.
        file: the known_hosts file that holds the key, or would get it.
        state: whether the key is trusted; `changed` means that known_hosts has another key for this host.
        new_keys: see SshTarget.
    """

    host: str
    algorithm: str
    key: str
    file: Path
    state: Literal["known", "unknown", "changed", "revoked"]
    new_keys: str = "ask"

    @property
    def fingerprint(self) -> str:
        """`SHA256:...`, as ssh-keygen -l shows it."""
        digest = hashlib.sha256(base64.b64decode(self.key)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """The key as a line of known_hosts."""
        return f"{self.host} {self.algorithm} {self.key}"


@dataclasses.dataclass(frozen=True)
class _Entry:
    marker: str
    names: tuple[str, ...]
    algorithm: str
    key: str

    def matches(self, host: str) -> bool:
        return any(_name_matches(name, host) for name in self.names) and not any(
            name.startswith("!") and _name_matches(name[1:], host) for name in self.names
        )


def evaluate_key(target: SshTarget, key: paramiko.PKey) -> HostKey:
    """Looks the key that a host showed up in known_hosts; the result's state says whether it is trusted."""
    host, algorithm, text = target.known_hosts_name, key.get_name(), key.get_base64()
    entries = [entry for entry in _entries(target.known_hosts) if entry.matches(host)]
    state: Literal["known", "unknown", "changed", "revoked"] = "unknown"
    if any(entry.key == text and entry.marker == REVOKED for entry in entries):
        state = "revoked"
    elif any(entry.key == text and not entry.marker for entry in entries):
        state = "known"
    elif any(not entry.marker for entry in entries):
        state = "changed"
    return HostKey(host, algorithm, text, target.known_hosts[0], state, target.new_keys)


def known_algorithms(target: SshTarget) -> list[str]:
    """The algorithms of the keys that known_hosts has for the host; the host is asked for a key of one of these."""
    return [
        entry.algorithm
        for entry in _entries(target.known_hosts)
        if entry.matches(target.known_hosts_name) and not entry.marker
    ]


def require_trusted(unit: str, key: HostKey) -> None:
    """Raises DeviceError for a key that is not trusted; `kind` is `host-key-` and its state.

    Keys that are new are taken where StrictHostKeyChecking says so: a board that is flashed each week has no other.
    """
    if key.state in ("unknown", "changed") and key.new_keys == "no":
        return
    if key.state == "unknown" and key.new_keys == "accept-new":
        add_key(key)
        return
    shown = f"{unit}: {key.host} shows the host key {key.fingerprint} ({key.algorithm})"
    if key.state == "revoked":
        raise DeviceError(f"{shown}, which known_hosts revokes: do not connect", "host-key-revoked")
    if key.state == "changed":
        raise DeviceError(
            f"{shown}, but {key.file} holds another one: somebody may be listening in between (an attack), or the "
            f"board was installed anew; compare the fingerprint on the board (ssh-keygen -lf "
            f"/etc/ssh/ssh_host_*_key.pub), then renew it: farm devices trust {unit}",
            "host-key-changed",
        )
    if key.state == "unknown":
        raise DeviceError(
            f"{shown}, which is not known yet; if it is the right one, accept it: farm devices trust {unit}",
            "host-key-unknown",
        )


def add_key(key: HostKey) -> None:
    """Adds the key to its known_hosts file, in place of other keys of that host.

    Raises ConfigError, with the line to add, where that file is no regular one (`/dev/null`), or not the user's own.
    """
    file = key.file.resolve()
    problem = (
        "keeps nothing (UserKnownHostsFile)"
        if file.exists() and not file.is_file()
        else ""
        if file.is_relative_to(host_system.home_folder().resolve())
        else "is outside of your home folder, and others may use it"
    )
    if problem:
        raise ConfigError(f"{key.file} {problem}: add the key to a file that ssh reads yourself: {key.line}")
    try:
        text = file.read_text(errors="surrogateescape") if file.exists() else ""
    except OSError as error:
        raise ConfigError(f"{key.file}: cannot be read: {error.strerror}") from None
    other_lines = [kept for line in text.splitlines() if (kept := _line_without_host(line, key.host)) is not None]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in [*other_lines, key.line])
    with atomic_file.replacing(file, 0o600) as opened:
        opened.write(content.encode(errors="surrogateescape"))


def _line_without_host(line: str, host: str) -> str | None:
    """Removes a host from a line; None where it names no other. Patterns and lines with a marker stay as they are."""
    entry = _parse_line(line)
    if entry is None or entry.marker:
        return line
    names = [name for name in entry.names if name != host and not (name.startswith("|") and _name_matches(name, host))]
    if len(names) == len(entry.names):
        return line
    return f"{','.join(names)} {line.split(maxsplit=1)[1]}" if names else None


def _entries(files: Iterable[Path]) -> Iterator[_Entry]:
    for path in files:
        try:
            text = path.read_text(errors="replace") if path.is_file() else ""
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
        for line in text.splitlines():
            entry = _parse_line(line)
            if entry is not None:
                yield entry


def _parse_line(line: str) -> _Entry | None:
    fields = line.split()
    marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
    if len(fields) < 3 or fields[0].startswith("#"):
        return None
    return _Entry(marker, tuple(fields[0].split(",")), fields[1], fields[2])


def _name_matches(name: str, host: str) -> bool:
    """Whether an entry's name, which may be a pattern with `*` and `?` or a hashed name, stands for the host."""
    if name.startswith("|1|"):
        try:
            return paramiko.HostKeys.hash_host(host, name) == name
        except (ValueError, AssertionError):
            return False
    pattern = re.escape(name.lower()).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(pattern, host.lower()) is not None
