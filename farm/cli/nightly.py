"""`farm nightly`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from farm.cli import FAILED, INTERRUPTED, store_options, view
from farm.jobs.commit import working_commit
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.nightly import run as nightly_run
from farm.jobs.nightly.matrix import Places, cases_of
from farm.jobs.nightly.places import places_of
from farm.nightly import file
from farm.nightly.file import Nightly
from farm.nightly.night import Night, Outcome
from farm.nightly.plan import expected_s
from farm.nightly.verdict import notify, verdict_of
from farm.report.write import write_reports
from farm.store import Store
from farm.tables import table
from farm.tables.nightly import night_tables, plan_table
from runtime.errors import FarmError

REPORTS = Path("reports")


def nightly(
    nightly_file: Path,
    resume: bool,
    dry_run: bool,
    output: Path | None,
    fleet: FleetOptions,
    store: str | None,
    as_json: bool,
) -> int:
    """`farm nightly`; returns the exit status."""
    nightly = file.load(nightly_file)
    places = places_of(nightly)
    with Store.open(store, tell=store_options.tell) as opened:
        if dry_run:
            return _show_plan(nightly, places, opened, as_json)
        run = nightly_run.resume(opened, nightly) if resume else _begun(opened, nightly)
        try:
            with view.shown() as watch:
                night = nightly_run.measure(opened, run, nightly, places, fleet, store_options.tell, watch)
        except KeyboardInterrupt:
            click.echo(f"interrupted; `farm nightly {nightly_file} --resume` goes on from here", err=True)
            return INTERRUPTED
    return _finish(nightly, night, output or REPORTS / nightly.title, as_json)


def _begun(store: Store, nightly: Nightly) -> int:
    return nightly_run.begin(store, nightly, store_options.command_line(), working_commit())


def _show_plan(nightly: Nightly, places: Places, store: Store, as_json: bool) -> int:
    cases = cases_of(nightly, places)
    block_s = nightly_run.block_seconds(store, nightly.title)
    expected = {unit: expected_s(found, nightly.repeats, block_s) for unit, found in cases.items()}
    if as_json:
        units = [
            {"unit": unit.name, "soc": unit.soc, "cases": list(map(str, found)), "expected_s": expected[unit]}
            for unit, found in cases.items()
        ]
        click.echo(json.dumps({"repeats": nightly.repeats, "units": units}))
    else:
        table.show([plan_table(cases, nightly.repeats, expected)])
    return 0


def _finish(nightly: Nightly, night: Night, folder: Path, as_json: bool) -> int:
    """Report, output, notification, exit status; a report that cannot be written does not hide the verdict."""
    status = FAILED if night.outcome == Outcome.WORSE else 0
    report = ""
    try:
        report = str(write_reports(night, folder).index)
    except FarmError as error:
        store_options.tell(str(error))
        status = FAILED
    verdict = verdict_of(night, report)
    if as_json:
        click.echo(json.dumps(verdict, allow_nan=False))
    else:
        table.show(night_tables(night))
        click.echo(f"{night.outcome}; report: {report or 'none'}")
    try:
        if nightly.notify_command:
            notify(nightly.notify_command, verdict)
    except FarmError as error:
        store_options.tell(str(error))
        status = FAILED
    return status
