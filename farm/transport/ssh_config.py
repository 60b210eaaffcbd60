"""Resolves how a unit is reached over SSH: from devices.yml, then from what `ssh -G` says that ssh's files mean.

Where there is no OpenSSH client, paramiko reads ~/.ssh/config, of which it knows the plain options only.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import paramiko

from farm import host_system, safe_text
from farm.config.inventory import Unit
from runtime.errors import ConfigError

DEFAULT_PORT = 22
DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
USER_KNOWN_HOSTS = "~/.ssh/known_hosts"
GLOBAL_KNOWN_HOSTS = "/etc/ssh/ssh_known_hosts"
NO_FILE = Path(os.devnull)  # stands for `none`
ASK_S = 30.0  # `Match exec` runs programs, and CanonicalizeHostname asks name servers
MAX_JUMPS = 8
BEYOND_PARAMIKO = re.compile(r"^\s*(match|include|canonicalizehostname)\b", re.IGNORECASE | re.MULTILINE)

Options = Mapping[str, Sequence[str]]  # option in lower case -> its values, in order


@dataclasses.dataclass(frozen=True)
class SshTarget:
    """A host to connect to, with all that the connection needs.

    Attributes:
        key_files: private keys to log in with, in this order, or public ones (`.pub`) of keys that the agent holds.
        known_hosts: files of trusted host keys; a new one goes into the first.
        connect_s: timeout of the connection; None where the configuration gives none.
        jump: the host through which this one is reached.
        host_key_alias: the host's name in known_hosts, where it has another one there.
        agent: socket of the agent; empty for no agent.
        only_key_files: whether the agent's other keys are left alone (IdentitiesOnly).
        new_keys: what StrictHostKeyChecking says of keys that known_hosts does not have: `ask` refuses them, as does
            `yes`; `accept-new` adds them, and `no` connects even where another one is known.
    """

    host: str
    port: int
    username: str
    key_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    connect_s: float | None = None
    jump: SshTarget | None = None
    host_key_alias: str = ""
    agent: str = ""
    only_key_files: bool = False
    new_keys: str = "ask"

    @property
    def label(self) -> str:
        """The host for people: `user@host:port`."""
        return f"{self.username}@{self.host}:{self.port}"

    @property
    def server(self) -> tuple[str, int, str]:
        """What tells its server from any other, since an address means another host behind a jump host."""
        return self.host, self.port, self.jump.label if self.jump else ""

    @property
    def known_hosts_name(self) -> str:
        """The host's name in known_hosts."""
        return self.host_key_alias or (self.host if self.port == DEFAULT_PORT else f"[{self.host}]:{self.port}")


def resolve_target(unit: Unit) -> SshTarget:
    """Resolves the unit's address and settings; raises ConfigError for a configuration that cannot be used."""
    files = (unit.key_file,) if unit.key_file else ()
    return _Resolver(unit.name).resolve(unit.address, unit.username, unit.port, files, unit.jump)


def resolve_host(user: str, address: str) -> SshTarget:
    """Resolves `[user@]host[:port]`; `user` names who needs it in errors. Raises ConfigError."""
    return _Resolver(user).hops(address)


class _Resolver:
    """Looks hosts up in ssh's configuration."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._file = host_system.home_folder() / ".ssh" / "config"
        self._left = MAX_JUMPS

    def resolve(
        self, alias: str, username: str = "", port: int | None = None, files: tuple[Path, ...] = (), jump: str = ""
    ) -> SshTarget:
        """Resolves a host by its alias; the arguments override the configuration."""
        if not (own_name := host_system.user_name()):
            raise ConfigError(f"{self._unit}: ssh needs a name for user {os.getuid()}, who has none here; set USER")
        options = self._options(alias.strip("[]"), username, port, jump)

        def first(name: str, default: str = "") -> str:
            return next(iter(options.get(name, ())), default)

        try:
            port, connect = port or int(first("port", str(DEFAULT_PORT))), first("connecttimeout", "none")
            connect_s = None if connect == "none" else float(connect)
        except ValueError as error:
            raise ConfigError(f"{self._file}: Host {alias}: {error}") from None
        hops = jump or first("proxyjump", "none")
        if hops == "none" and first("proxycommand", "none") != "none":
            raise ConfigError(f"{self._file}: Host {alias}: ProxyCommand is not supported; use ProxyJump")
        host, user = first("hostname", alias).strip("[]"), username or first("user", own_name)
        tokens = {"h": host, "n": alias, "p": str(port), "r": user, "u": own_name, "k": first("hostkeyalias", host)}
        trusted = [*options.get("userknownhostsfile", ()), *options.get("globalknownhostsfile", (GLOBAL_KNOWN_HOSTS,))]
        keys = [_path(name, tokens) for name in options.get("identityfile", DEFAULT_KEYS)]
        checking = first("stricthostkeychecking", "ask")
        return SshTarget(
            host=host,
            port=port,
            username=user,
            key_files=(*files, *(key for key in keys if key.is_file() and key not in files)),
            known_hosts=tuple(_path(name, tokens) for listed in trusted for name in _separate(listed)),
            connect_s=connect_s,
            jump=None if hops == "none" else self.hops(hops),
            host_key_alias=first("hostkeyalias"),
            agent=_agent(first("identityagent", "SSH_AUTH_SOCK"), tokens),
            only_key_files=first("identitiesonly") == "yes",
            new_keys="no" if checking in ("false", "off") else checking,
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

    def _options(self, alias: str, username: str, port: int | None, jump: str) -> Options:
        """What holds for a host; `ssh` itself needs a user whom the system knows."""
        try:
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            home = None
        program = shutil.which("ssh")
        if not program or not home:
            return self._read_plain(alias)
        command = [program, "-G", "-T"]
        is_elsewhere = self._file.parent.parent != home  # ssh goes by the system's word, farm by HOME
        if is_elsewhere:
            command += ["-F", str(self._file) if self._file.is_file() else "none"]
        command += ["-l", username] if username else []
        command += ["-p", str(port)] if port else []
        command += ["-J", jump] if jump else []
        try:
            asked = subprocess.run(
                [*command, "--", alias], capture_output=True, stdin=subprocess.DEVNULL, timeout=ASK_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"{self._unit}: ssh -G {alias}: {safe_text.word(error, 300)}") from None
        if asked.returncode:
            problem = safe_text.word(asked.stderr.decode(errors="replace"), 500)
            raise ConfigError(f"{self._unit}: ssh -G {alias}: {problem}")
        options: dict[str, list[str]] = {}
        for line in asked.stdout.decode(errors="surrogateescape").splitlines():
            name, _, value = line.partition(" ")
            options.setdefault(name, []).append(value)
        own = f"{home}/.ssh/known_hosts"
        if is_elsewhere and options.get("userknownhostsfile") == [f"{own} {own}2"]:
            options["userknownhostsfile"] = [USER_KNOWN_HOSTS]
        return options

    def _read_plain(self, alias: str) -> Options:
        """Reads the user's file with paramiko; raises ConfigError where it says what only ssh understands."""
        try:
            text = self._file.read_text() if self._file.is_file() else ""
            if beyond := BEYOND_PARAMIKO.search(text):
                raise ConfigError(f"{self._file}: {beyond[1]} is read by `ssh` only (apt install openssh-client)")
            found = paramiko.SSHConfig.from_text(text).lookup(alias)
        except (OSError, ValueError, KeyError, ImportError, paramiko.SSHException) as error:
            raise ConfigError(f"{self._file}: cannot be read: {error}") from None
        options = {name: [value] if isinstance(value, str) else value for name, value in found.items()}
        return {"userknownhostsfile": [USER_KNOWN_HOSTS], **options}


def _path(text: str, tokens: Mapping[str, str]) -> Path:
    """A path as ssh_config(5) writes it, with tokens such as `%h`."""
    node = platform.node()
    known = {"%": "%", "d": "~", "i": str(os.getuid()), "l": node, "L": node.partition(".")[0], **tokens}
    replaced = re.sub("%(.)", lambda match: known.get(match[1], match[0]), text)
    return NO_FILE if replaced == "none" else host_system.expanded_path(replaced)


def _agent(named: str, tokens: Mapping[str, str]) -> str:
    """The agent's socket, from IdentityAgent: a path, a variable (`$NAME` or SSH_AUTH_SOCK) or `none`."""
    if named == "none":
        return ""
    if named == "SSH_AUTH_SOCK" or named.startswith("$"):
        return os.environ.get(named.lstrip("$").strip("{}"), "")
    return str(_path(named, tokens))


def _separate(listed: str) -> list[str]:
    """Separates file names, which `ssh -G` prints without their quotes: each begins like a path."""
    return [name.strip().strip('"') for name in re.split(r"\s+(?=[\"/~%])", listed) if name.strip()]
