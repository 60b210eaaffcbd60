"""`farm devices trust`: shows the host key of a board, or of a machine with an adb server, and accepts it."""

import functools
from collections.abc import Callable, Sequence

import click

from farm import safe_text
from farm.cli.envelope import CommandResult, Document
from farm.config.inventory import load_inventory
from farm.transport import ssh
from farm.transport.ssh_known_hosts import HostKey
from farm.units import lookup, survey
from runtime.errors import ConfigError

MAX_HOSTS = 10


def trust_device(name: str, yes: bool, as_json: bool) -> CommandResult:
    """`farm devices trust`; under --json the keys and the question stand on standard error."""
    host_key_of = _host_key_source(name)
    shown: list[HostKey] = []
    for _ in range(MAX_HOSTS):
        key = host_key_of()
        shown.append(key)
        if key.state == "known":
            return _trust_result(name, shown, as_json)
        if not _accepted(key, yes, as_json):
            return _trust_result(name, shown, as_json)
        ssh.trust(key)
    raise ConfigError(f"{name}: {key.file} does not keep the key of {key.host}")


def _host_key_source(name: str) -> Callable[[], HostKey]:
    """What fetches the key of a board or of a machine whose adb server is used."""
    if name in {server.ssh for server in survey.adb_servers(load_inventory())}:
        return functools.partial(ssh.host_key_of_machine, name)
    unit = lookup.present_unit(name)
    if unit.adb_server.ssh:
        return functools.partial(ssh.host_key_of_machine, unit.adb_server.ssh)
    if not unit.kind.has_host_key:
        raise ConfigError(f"{unit.name}: only boards (transport: ssh) have a host key; phones ask on their screen")
    return functools.partial(ssh.host_key_of, unit)


def _trust_result(name: str, shown: Sequence[HostKey], as_json: bool) -> CommandResult:
    """Says whether the last key shown, the unit's or machine's own, is trusted now."""
    key = shown[-1]
    status = 0 if key.state == "known" else 1
    if as_json:
        return Document(status, members={"unit": name, "trusted": not status, "keys": [*map(_key_json, shown)]})
    if not status:
        click.echo(f"{name}: {key.host} is trusted ({key.fingerprint})")
    return status


def _key_json(key: HostKey) -> dict[str, str]:
    """A host key's JSON members; `state` is what known_hosts said of it before."""
    members = {name: getattr(key, name) for name in ("host", "algorithm", "fingerprint", "state")}
    return {**members, "file": str(key.file)}


def _accepted(key: HostKey, yes: bool, as_json: bool) -> bool:
    """Shows a host key, and asks whether it is the right one."""
    click.echo(safe_text.one_line(f"{key.host}: {key.algorithm} {key.fingerprint}"), err=as_json)
    if key.state == "revoked":
        raise ConfigError(f"{key.host}: known_hosts revokes this key; do not connect")
    if key.state == "changed":
        warning = f"WARNING: {key.file} holds another key: an attack, or the board was installed anew."
        click.echo(warning, err=as_json)
    accepted = yes or click.confirm(f"Is this the key of {key.host}?", err=as_json)
    if not accepted:
        click.echo("not accepted", err=True)
    return accepted
