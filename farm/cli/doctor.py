"""`farm doctor`."""

from __future__ import annotations

import dataclasses

import click

from farm import doctor
from farm.cli.envelope import OPTION, CommandResult, Document
from farm.doctor import Check
from farm.jobs.fleet.probe import probe_driver

MARKS = {"ok": click.style("ok     ", fg="green"), "advice": click.style("advice ", fg="yellow")}
MISSING = click.style("missing", fg="red", bold=True)


@click.command(name="doctor")
@click.option(OPTION, "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> CommandResult:
    """Say what this machine has, what it lacks, and what to do about it.

    Exit status 1 when something is missing without which nothing runs.
    """
    checks = doctor.examine(probe_driver)
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
