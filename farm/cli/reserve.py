"""`farm reserve`: a person takes a unit off for a time."""

from __future__ import annotations

import contextlib

import click

from farm.cli.envelope import CommandResult, Document
from farm.lease import reservation
from farm.transport import connect
from farm.units import lookup


def reserve(name: str, duration_s: float, reason: str, force: bool, as_json: bool) -> CommandResult:
    """`farm reserve`."""
    unit = lookup.present_unit(name)
    with contextlib.closing(connect(unit)) as transport:
        outcome = reservation.reserve(unit, transport, reason, duration_s, force=force)
    if as_json:
        return Document(members={"unit": unit.name, "text": outcome})
    click.echo(outcome)
    return 0
