"""`farm nightly`."""

from pathlib import Path
from typing import Any

import click

from farm.cli import FAILED, clusters, store_options, view, work
from farm.cli.envelope import CommandResult, Document
from farm.cluster.address import ClusterChoice
from farm.jobs.commit import working_commit
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.nightly import run as nightly_run
from farm.jobs.nightly.matrix import Places, cases_of
from farm.jobs.nightly.places import left_out, places_of
from farm.nightly import configuration, notification
from farm.nightly.block_order import expected_duration_s
from farm.nightly.configuration import NightlyConfiguration
from farm.nightly.night import Night, NightOutcome
from farm.nightly.notification import notify, verdict_document, verdict_members
from farm.report.write import write_reports
from farm.safe_text import one_line
from farm.store import Store
from farm.store.lines import RunData
from farm.store.recorder import Recorder
from farm.store.shared_place import SharedPlace
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
    trust_models: bool,
    cluster: ClusterChoice | None,
    share: str | None,
    as_json: bool,
) -> CommandResult:
    """`farm nightly`; returns the exit status."""
    nightly = configuration.load(nightly_file)
    shared = SharedPlace(share) if share else None
    with clusters.place_of(cluster) as place:
        places = places_of(nightly, trust_models, place.candidates)
        for line in left_out(nightly, places):
            store_options.tell(f"note: {line}")
        if dry_run:
            return _show_plan(nightly, places, store, as_json)
        run = nightly_run.resumed(store, nightly) if resume else _begun(nightly)
        keeper = Recorder(store, run, store_options.tell)
        how_to_go_on = f"interrupted; `farm nightly {nightly_file} --resume` goes on from here"
        try:
            with view.shown(interrupted=how_to_go_on) as progress:
                job = place.nights(places, fleet, progress, store_options.tell)
                night = nightly_run.measure(keeper, nightly, job, fleet.retries, store_options.tell, shared)
        except KeyboardInterrupt:
            return work.interrupted(how_to_go_on, as_json)
    return _finish(nightly, night, output or REPORTS / nightly.title, keeper.exit_status, as_json)


def _begun(nightly: NightlyConfiguration) -> RunData:
    return nightly_run.begun(nightly, store_options.command_line(), working_commit())


def _show_plan(nightly: NightlyConfiguration, places: Places, store: str | None, as_json: bool) -> CommandResult:
    cases = cases_of(nightly, places)
    with Store.open(store) as opened:
        block_s = nightly_run.block_seconds(opened, nightly.title)
    expected = {unit: expected_duration_s(of_unit, nightly.repeats, block_s) for unit, of_unit in cases.items()}
    if as_json:
        units = [
            {"unit": unit.name, "soc": unit.soc, "cases": list(map(str, of_unit)), "expected_s": expected[unit]}
            for unit, of_unit in cases.items()
        ]
        return Document(members={"repeats": nightly.repeats, "units": units})
    table.show([plan_table(cases, nightly.repeats, expected)])
    return 0


def _finish(
    nightly: NightlyConfiguration, night: Night, folder: Path, least_status: int, as_json: bool
) -> CommandResult:
    """Report, output, notification, exit status; a report that cannot be written does not hide the verdict."""
    status = FAILED if night.outcome == NightOutcome.WORSE else least_status
    report = ""
    try:
        report = str(write_reports(night, folder).index)
    except FarmError as error:
        store_options.tell(str(error))
        status = FAILED
    verdict = verdict_members(night, report)
    if not as_json:
        table.show(night_tables(night))
        click.echo(f"\n{one_line(verdict['headline'])}\nreport: {report or 'none'}")
    try:
        if nightly.notify_command:
            notify(nightly.notify_command, verdict)
    except FarmError as error:
        store_options.tell(str(error))
        status = FAILED
    if nightly.webhook:
        _call_webhook(nightly.webhook, nightly.secret_file, verdict)
    return Document(status, night.rows, verdict) if as_json else status


def _call_webhook(url: str, secret_file: Path | None, verdict: dict[str, Any]) -> None:
    """Sends the verdict; that nobody takes it is told, and makes no night a bad one."""
    try:
        notification.send(url, verdict_document(verdict), notification.read_secret(secret_file) if secret_file else b"")
    except FarmError as error:
        store_options.tell(str(error))
