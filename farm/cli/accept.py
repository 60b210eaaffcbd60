"""`farm accept`."""

import dataclasses
from collections.abc import Sequence

import click

from farm import safe_text
from farm.cli import view, work
from farm.cli.envelope import CommandResult, Document
from farm.jobs.accept.job import UnitFinding, accept_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.units import health, lookup
from farm.units.selection import ANY, Selection

MARKS = {"ok": "ok", "limited": "limited", "failed": "FAILED", "skipped": "-"}
INTERRUPTED = "interrupted; `farm accept` goes on where it was"


def accept(
    names: Sequence[str], quick: bool, fresh: bool, choice: Selection, fleet: FleetOptions, as_json: bool
) -> CommandResult:
    """`farm accept`; returns the exit status."""
    choice = dataclasses.replace(choice, devices=(*choice.devices, *names))
    if choice == ANY:
        raise click.UsageError("name the units to accept; `farm devices` lists them")
    units = lookup.chosen_units(choice)
    found: list[UnitFinding] = []
    try:
        with view.shown(only_slow=True) as progress:
            for each in accept_job(units, quick, fresh, fleet, progress):
                found.append(each)
                if not as_json:
                    _print(each, len(units) > 1)
    except KeyboardInterrupt:
        return work.interrupted(INTERRUPTED, as_json)
    status = int(any(each.finding.state == "failed" for each in found))
    if as_json:
        members = [{"unit": each.unit, "kept": each.kept, **each.finding.model_dump(mode="json")} for each in found]
        return Document(status, members={"findings": members})
    for unit in units:
        faults = [each.finding.check for each in found if each.unit == unit.name and each.finding.state == "failed"]
        end = f"not accepted: {', '.join(faults)}" if faults else "accepted"
        is_left_alone = faults and health.HealthRecords().read(unit).quarantine
        click.echo(f"{unit.name}: {end}{'; jobs leave it alone' if is_left_alone else ''}")
    return status


def _print(each: UnitFinding, with_unit: bool) -> None:
    finding = each.finding
    head = f"{each.unit}: " if with_unit else ""
    kept = " (found before)" if each.kept else ""
    click.echo(safe_text.one_line(f"{MARKS[finding.state]:<8}{head}{finding.check}: {finding.text}{kept}"))
    if finding.effect:
        click.echo(safe_text.one_line(f"{'':<8}-> {finding.effect}"))
