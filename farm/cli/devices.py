"""`farm devices`: which units there are, and what to do about one."""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from farm import safe_text
from farm.cli.envelope import CommandResult, Document
from farm.cluster.address import ClusterChoice
from farm.config.inventory import Unit
from farm.lease import lease
from farm.tables import table
from farm.tables.devices import devices_json, devices_table
from farm.transport import Transport, connect
from farm.units import lookup, survey
from farm.units.facts_cache import DriverFacts
from farm.units.selection import SelectableUnit, Selection, may_match, select
from farm.units.survey import UnitEntry, UnitReport, UnitState
from runtime.errors import ConfigError, FarmError

PROBE_DEADLINE_S = 300.0

DEVICES = "devices"


def devices(
    choice: Selection,
    cluster: str | None,
    certificates: Path | None,
    as_json: bool,
    probe: bool,
    watch: bool,
    every_s: float,
) -> CommandResult:
    """`farm devices`; returns the exit status."""
    if cluster:
        _refuse_with_cluster(probe, watch)
        return _cluster_devices(ClusterChoice(cluster, certificates), choice, as_json)
    look = _looker(choice, probe)
    if watch:
        _watch(look, as_json, every_s)
        return 0
    reports = look()
    if as_json:
        return Document(members=devices_json(reports))
    table.show([devices_table(reports)])
    return 0


def _refuse_with_cluster(probe: bool, watch: bool) -> None:
    if probe or watch:
        raise ConfigError(
            f"--cluster lists units once, without {'--probe' if probe else '--watch'}; run that on a host"
        )


def _cluster_devices(cluster: ClusterChoice, choice: Selection, as_json: bool) -> CommandResult:
    """The units of all hosts, a table for each host; exit status 1 where a host does not answer."""
    from farm.cli import clusters  # brings what jobs need, which a list does not

    with clusters.joined(cluster) as joined:
        hosts = joined.reports()
    chosen = select([SelectableUnit(report.unit, report.state) for host in hosts for report in host.units], choice)
    shown = {host.name: [report for report in host.units if report.unit in chosen] for host in hosts}
    for host in hosts:
        if host.error:
            click.echo(safe_text.one_line(f"{host.name}: {host.error}"), err=True)
    status = int(any(host.error for host in hosts))
    if as_json:
        found = [
            {**member, "host": name} for name, reports in shown.items() for member in devices_json(reports)[DEVICES]
        ]
        return Document(status, members={DEVICES: found})
    table.show([dataclasses.replace(devices_table(reports), title=name) for name, reports in shown.items() if reports])
    return status


def _looker(choice: Selection, probe: bool) -> Callable[[], list[UnitReport]]:
    """Looks at all units that are meant."""

    def ask(entry: UnitEntry) -> UnitReport:
        if not may_match(entry.unit, choice):
            return survey.report_from_cache(entry)
        report = survey.inspect(entry, connect)
        return _with_driver(report) if probe and report.state == UnitState.READY else report

    def look() -> list[UnitReport]:
        reports = survey.ask_all(lookup.present(), ask, PROBE_DEADLINE_S if probe else survey.DEADLINE_S)
        chosen = select([SelectableUnit(report.unit, report.state) for report in reports], choice)
        return [report for report in reports if report.unit in chosen]

    return look


def _with_driver(report: UnitReport) -> UnitReport:
    """The report with the driver that farmrt finds now."""
    try:
        with (
            contextlib.closing(connect(report.unit)) as transport,
            lease.acquire(report.unit, transport, "probe"),
        ):
            return dataclasses.replace(report, driver=_driver(report.unit, transport))
    except FarmError as error:
        reason = safe_text.word(error, survey.MAX_REASON)
        return dataclasses.replace(report, state=UnitState.FAILING, reason=reason)


def _driver(unit: Unit, transport: Transport) -> DriverFacts:
    from farm.jobs.fleet.opencl_library import (
        find_opencl,  # a list without --probe needs neither
        probe_unit,
    )

    return probe_unit(unit, transport, find_opencl(unit, None))


def _watch(look: Callable[[], list[UnitReport]], as_json: bool, every_s: float) -> None:
    """Until interrupted, which is how it is meant to end."""
    with contextlib.suppress(KeyboardInterrupt):
        if as_json or not sys.stdout.isatty():
            _watch_plainly(look, as_json, every_s)
        with Live(console=Console(), auto_refresh=False, screen=False) as live:
            while True:
                live.update(table.FittedTable(devices_table(look())), refresh=True)
                time.sleep(every_s)


def _watch_plainly(look: Callable[[], list[UnitReport]], as_json: bool, every_s: float) -> None:
    """Every change as a table, or as a document of one line."""
    before = ""
    while True:
        reports = look()
        text = Document(members=devices_json(reports)).text(DEVICES) if as_json else table.plain(devices_table(reports))
        if text != before:
            click.echo(text)
            sys.stdout.flush()
        before = text
        time.sleep(every_s)
