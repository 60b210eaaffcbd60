"""`farm doctor`."""

from __future__ import annotations

import dataclasses

import click

from farm import doctor as machine
from farm.cli.envelope import CommandResult, Document
from farm.config.inventory import Unit
from farm.doctor import Check
from farm.jobs.fleet.probe import probe_driver
from farm.jobs.fleet.unit_checks import examine_unit
from farm.units import lookup
from farm.units.selection import Selection

MARKS = {"ok": click.style("ok     ", fg="green"), "advice": click.style("advice ", fg="yellow")}
MISSING = click.style("missing", fg="red", bold=True)


def doctor(device: str | None, as_json: bool) -> CommandResult:
    """`farm doctor`; returns the exit status."""
    checks: list[Check] = []
    for check in examine_unit(_unit(device)) if device else machine.examine(probe_driver):
        checks.append(check)
        if not as_json:
            _print(check)
    status = int(any(check.state == "missing" for check in checks))
    if not as_json:
        return status
    unit = {"unit": device} if device else {}
    return Document(status, members={**unit, "checks": [dataclasses.asdict(check) for check in checks]})


def _unit(name: str) -> Unit:
    return lookup.chosen_units(Selection(devices=(name,)))[0]


def _print(check: Check) -> None:
    click.echo(f"{MARKS.get(check.state, MISSING)}  {check.name:<14}  {check.found}")
    if check.advice:
        click.echo(f"{'':25}-> {check.advice}")
