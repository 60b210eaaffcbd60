"""`farm reserve` and `farm release`: a person takes a unit off for a time, and gives it back."""

import contextlib
from pathlib import Path

import click

from farm import safe_text
from farm.cli import cluster_hosts
from farm.cli.envelope import CommandResult, Document
from farm.lease import lease, reservation
from farm.transport import connect
from farm.units import lookup


def reserve(
    name: str,
    duration_s: float,
    reason: str,
    force: bool,
    cluster: str | None,
    certificates: Path | None,
    as_json: bool,
) -> CommandResult:
    """`farm reserve`."""
    if cluster:
        with cluster_hosts.connected(cluster, certificates) as hosts:
            return told(name, hosts.reserve(name, duration_s, reason, lease.owner_name(), force), as_json)
    unit = lookup.present_unit(name)
    with contextlib.closing(connect(unit)) as transport:
        return told(unit.name, reservation.reserve(unit, transport, reason, duration_s, force=force), as_json)


def release(name: str, force: bool, cluster: str | None, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm release` and `farm devices release`."""
    if cluster:
        with cluster_hosts.connected(cluster, certificates) as hosts:
            return told(name, hosts.release(name, lease.owner_name(), force), as_json)
    unit = lookup.present_unit(name)
    with contextlib.closing(connect(unit)) as transport:
        return told(unit.name, lease.release(unit, transport, force), as_json)


def told(unit: str, outcome: str, as_json: bool) -> CommandResult:
    """What was done with a unit, as a line or as JSON."""
    if as_json:
        return Document(members={"unit": unit, "text": outcome})
    click.echo(safe_text.one_line(outcome))
    return 0
