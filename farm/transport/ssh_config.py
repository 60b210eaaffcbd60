"""Resolves how a unit is reached over SSH: from devices.yml, then ~/.ssh/config, then ssh's defaults."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import paramiko

from farm import host_system
from farm.config.inventory import Unit
from runtime.errors import ConfigError

DEFAULT_PORT = 22
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
GLOBAL_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
MAX_JUMPS = 8
MAX_INCLUDES = 16


@dataclasses.dataclass(frozen=True)
class SshTarget:
    """A host to connect to, with all that the connection needs.

    Attributes:
        key_files: private keys to log in with, in this order, before the agent's keys.
        known_hosts: files of trusted host keys; a new one goes into the first.
        connect_s: timeout of the connection; None where the configuration gives none.
        jump: the host through which this one is reached.
    """

    host: str
    port: int
    username: str
    key_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    connect_s: float | None = None
    jump: SshTarget | None = None

    @property
    def label(self) -> str:
        """The host for people: `user@host:port`."""
        return f"{self.username}@{self.host}:{self.port}"

    @property
    def known_hosts_name(self) -> str:
        """The host's name in known_hosts."""
        return self.host if self.port == DEFAULT_PORT else f"[{self.host}]:{self.port}"


def resolve_target(unit: Unit) -> SshTarget:
    """Resolves the unit's address and settings; raises ConfigError for a configuration that cannot be used."""
    files = (unit.key_file,) if unit.key_file else ()
    return _Resolver(unit.name).resolve(unit.address, unit.username, unit.port, files, unit.jump)


def resolve_host(user: str, address: str) -> SshTarget:
    """Resolves `[user@]host[:port]`; `user` names who needs it in errors. Raises ConfigError."""
    return _Resolver(user).hops(address)


class _Resolver:
    """Looks hosts up in ~/.ssh/config."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._home = host_system.home_folder() / ".ssh"
        self._file = self._home / "config"
        self._left = MAX_JUMPS
        try:
            text = "\n".join(_lines(self._file, self._home)) if self._file.is_file() else ""
            self._config = paramiko.SSHConfig.from_text(text)
        except (OSError, UnicodeDecodeError, paramiko.SSHException) as error:
            raise ConfigError(f"{self._file}: cannot be read: {error}") from None

    def resolve(
        self, alias: str, username: str = "", port: int | None = None, files: tuple[Path, ...] = (), jump: str = ""
    ) -> SshTarget:
        """Resolves a host by its alias; the arguments override the file."""
        own_name = self._own_name()
        try:
            options = self._config.lookup(alias)
            port = port or int(options.get("port", DEFAULT_PORT))
            connect_s = float(options["connecttimeout"]) if "connecttimeout" in options else None
        except (ValueError, ImportError, paramiko.SSHException) as error:
            raise ConfigError(f"{self._file}: Host {alias}: {error}") from None
        hops = jump or str(options.get("proxyjump") or "none")
        if hops == "none" and options.get("proxycommand", "none") != "none":
            raise ConfigError(f"{self._file}: Host {alias}: ProxyCommand is not supported; use ProxyJump")
        return SshTarget(
            host=options["hostname"].strip("[]"),
            port=port,
            username=username or options.get("user") or own_name,
            key_files=(*files, *(host_system.expanded_path(name) for name in options.get("identityfile", ())))
            or self._keys(),
            known_hosts=self._known_hosts(options.get("userknownhostsfile", "")),
            connect_s=connect_s,
            jump=None if hops == "none" else self.hops(hops),
        )

    def hops(self, hops: str) -> SshTarget:
        """Resolves a ProxyJump `a,b,c`: the last host, reached through those before it."""
        self._left -= 1
        if self._left < 0:
            raise ConfigError(f"{self._unit}: more than {MAX_JUMPS} jump hosts; does a ProxyJump lead in a circle?")
        before, _, last = hops.rpartition(",")
        form = re.fullmatch(r"(?:ssh://)?(?:([^@]+)@)?(\[[^]]+\]|[^:@]+)(?::(\d{1,5}))?", last.strip())
        if not form:
            raise ConfigError(f"{self._unit}: jump host {last!r} is not of the form [user@]host[:port]")
        return self.resolve(form[2], form[1] or "", int(form[3]) if form[3] else None, jump=before)

    def _own_name(self) -> str:
        """The user's name, without which paramiko looks nothing up."""
        if not (name := host_system.user_name()):
            raise ConfigError(f"{self._unit}: ssh needs a name for user {os.getuid()}, who has none here; set USER")
        return name

    def _keys(self) -> tuple[Path, ...]:
        return tuple(path for name in DEFAULT_KEYS if (path := self._home / name).is_file())

    def _known_hosts(self, listed: str) -> tuple[Path, ...]:
        own = [host_system.expanded_path(name.strip('"')) for name in listed.split()] or [self._home / "known_hosts"]
        return (*own, GLOBAL_KNOWN_HOSTS)


def _lines(path: Path, home: Path, left: int = MAX_INCLUDES) -> list[str]:
    """The file's lines with those of the files that it includes: paramiko ignores `Include`."""
    lines: list[str] = []
    for line in path.read_text().splitlines():
        include = re.fullmatch(r"\s*include[\s=]+(.+)", line, re.IGNORECASE)
        if not include:
            lines.append(line)
            continue
        if not left:
            raise OSError(f"more than {MAX_INCLUDES} Include in one another")
        for name in include[1].split():
            pattern = host_system.expanded_path(name.strip('"'))
            for included in sorted(home.glob(str(pattern)) if not pattern.is_absolute() else _glob(pattern)):
                lines += _lines(included, home, left - 1)
    return lines


def _glob(pattern: Path) -> list[Path]:
    return [path for path in Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))) if path.is_file()]
