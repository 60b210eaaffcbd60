"""`farm devices`: which units there are, and what to do about one."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from farm import safe_text
from farm.cli import cluster_hosts, clusters
from farm.cli.envelope import CommandResult, Document
from farm.cluster.address import ClusterChoice
from farm.config.inventory import Unit, load_inventory
from farm.jobs.fleet.health_check import check_unit
from farm.jobs.fleet.opencl_library import find_opencl
from farm.jobs.fleet.probe import probe_unit
from farm.lease import lease
from farm.tables import table
from farm.tables.devices import devices_json, devices_table
from farm.transport import Transport, connect, ssh
from farm.transport.ssh_known_hosts import HostKey
from farm.units import health, lookup, survey
from farm.units.facts_cache import DriverFacts
from farm.units.health import CheckResult
from farm.units.selection import SelectableUnit, Selection, may_match, select
from farm.units.survey import UnitEntry, UnitReport, UnitState
from runtime.errors import ConfigError, FarmError

PROBE_DEADLINE_S = 300.0
MAX_HOSTS = 10

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


def check_device(name: str, cluster: str | None, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm devices check`; returns the exit status."""
    if cluster:
        with cluster_hosts.connected(cluster, certificates) as hosts:
            return _check_result(name, *hosts.check(name), as_json)
    unit = _named(name, with_facts=True)
    findings = check_unit(unit)
    quarantine = health.HealthRecords().record_check(unit, findings).quarantine
    return _check_result(unit.name, findings, quarantine.line if quarantine else "", as_json)


def _check_result(name: str, findings: Sequence[CheckResult], quarantine: str, as_json: bool) -> CommandResult:
    status = int(not all(finding.ok for finding in findings))
    if as_json:
        points = [{"name": finding.name, "ok": finding.ok, "text": finding.text} for finding in findings]
        return Document(status, members={"unit": name, "findings": points})
    for finding in findings:
        click.echo(safe_text.one_line(f"{'ok ' if finding.ok else 'BAD'}  {finding.name}: {finding.text}"))
    if quarantine:
        click.echo(safe_text.one_line(quarantine))
    return status


def trust_device(name: str, yes: bool, as_json: bool) -> CommandResult:
    """`farm devices trust`; under --json the keys and the question stand on standard error."""
    host_key_of = _host_key_source(name)
    shown: list[HostKey] = []
    for _ in range(MAX_HOSTS):
        key = host_key_of()
        shown.append(key)
        if key.state == "known":
            return _trust_result(name, shown, as_json)
        if not _accepted(key, yes, as_json):
            return _trust_result(name, shown, as_json)
        ssh.trust(key)
    raise ConfigError(f"{name}: {key.file} does not keep the key of {key.host}")


def _host_key_source(name: str) -> Callable[[], HostKey]:
    """What fetches the key of a board or of a machine whose adb server is used."""
    if name in {server.ssh for server in survey.adb_servers(load_inventory())}:
        return functools.partial(ssh.host_key_of_machine, name)
    unit = _named(name)
    if unit.adb_server.ssh:
        return functools.partial(ssh.host_key_of_machine, unit.adb_server.ssh)
    if unit.transport != "ssh":
        raise ConfigError(f"{unit.name}: only boards (transport: ssh) have a host key; phones ask on their screen")
    return functools.partial(ssh.host_key_of, unit)


def _trust_result(name: str, shown: Sequence[HostKey], as_json: bool) -> CommandResult:
    """Says whether the last key shown, the unit's or machine's own, is trusted now."""
    key = shown[-1]
    status = 0 if key.state == "known" else 1
    if as_json:
        return Document(status, members={"unit": name, "trusted": not status, "keys": [*map(_key_json, shown)]})
    if not status:
        click.echo(f"{name}: {key.host} is trusted ({key.fingerprint})")
    return status


def _key_json(key: HostKey) -> dict[str, str]:
    """A host key's JSON members; `state` is what known_hosts said of it before."""
    members = {name: getattr(key, name) for name in ("host", "algorithm", "fingerprint", "state")}
    return {**members, "file": str(key.file)}


def _accepted(key: HostKey, yes: bool, as_json: bool) -> bool:
    """Shows a host key, and asks whether it is the right one."""
    click.echo(safe_text.one_line(f"{key.host}: {key.algorithm} {key.fingerprint}"), err=as_json)
    if key.state == "revoked":
        raise ConfigError(f"{key.host}: known_hosts revokes this key; do not connect")
    if key.state == "changed":
        warning = f"WARNING: {key.file} holds another key: an attack, or the board was installed anew."
        click.echo(warning, err=as_json)
    accepted = yes or click.confirm(f"Is this the key of {key.host}?", err=as_json)
    if not accepted:
        click.echo("not accepted", err=True)
    return accepted


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
    return probe_unit(unit, transport, find_opencl(unit, None))


def _named(name: str, with_facts: bool = False) -> Unit:
    """The unit of that name."""
    if with_facts:
        return lookup.chosen_units(Selection(devices=(name,)))[0]
    return lookup.present_unit(name)


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
