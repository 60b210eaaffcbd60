"""`farm doctor`."""

from __future__ import annotations

import dataclasses

import click

from farm import doctor as machine
from farm.cli.envelope import CommandResult, Document
from farm.doctor import Check
from farm.jobs.fleet.probe import probe_driver

MARKS = {"ok": click.style("ok     ", fg="green"), "advice": click.style("advice ", fg="yellow")}
MISSING = click.style("missing", fg="red", bold=True)


def doctor(as_json: bool) -> CommandResult:
    """`farm doctor`; returns the exit status."""
    checks = machine.examine(probe_driver)
    status = int(any(check.state == "missing" for check in checks))
    if as_json:
        return Document(status, members={"checks": [dataclasses.asdict(check) for check in checks]})
    for check in checks:
        _print(check)
    return status


def _print(check: Check) -> None:
    click.echo(f"{MARKS.get(check.state, MISSING)}  {check.name:<14}  {check.found}")
    if check.advice:
        click.echo(f"{'':25}-> {check.advice}")
