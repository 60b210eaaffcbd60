"""`farm doctor`."""

from __future__ import annotations

import dataclasses
import json

import click

from farm import doctor as machine
from farm.doctor import Check
from farm.jobs.fleet.probe import probe_driver

MARKS = {"ok": click.style("ok     ", fg="green"), "advice": click.style("advice ", fg="yellow")}
MISSING = click.style("missing", fg="red", bold=True)


def doctor(as_json: bool) -> int:
    """`farm doctor`; returns the exit status."""
    checks = machine.examine(probe_driver)
    if as_json:
        click.echo(json.dumps({"checks": [dataclasses.asdict(check) for check in checks]}, indent=2))
    else:
        for check in checks:
            _print(check)
    return int(any(check.state == "missing" for check in checks))


def _print(check: Check) -> None:
    click.echo(f"{MARKS.get(check.state, MISSING)}  {check.name:<14}  {check.found}")
    if check.advice:
        click.echo(f"{'':25}-> {check.advice}")
