"""`farm devices`: which units there are, and what to do about one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence

import click
from rich.console import Console
from rich.live import Live

from farm import safe_text
from farm.config.inventory import Unit
from farm.jobs.fleet.health_check import check_unit
from farm.jobs.fleet.opencl_library import find_opencl
from farm.jobs.fleet.probe import probe_unit
from farm.lease import lease
from farm.tables import table
from farm.tables.devices import devices_json, devices_table
from farm.transport import Transport, connect, ssh
from farm.transport.ssh_trust import HostKey
from farm.units import health, lookup, roll_call
from farm.units.health import Finding, Quarantine
from farm.units.known_units import Driver
from farm.units.roll_call import Present, Report, State
from farm.units.selection import Candidate, Choice, may_fit, select
from runtime.errors import ConfigError, FarmError

PROBE_DEADLINE_S = 300.0
MAX_HOSTS = 10


def devices(choice: Choice, as_json: bool, probe: bool, watch: bool, every_s: float) -> int:
    """`farm devices`; returns the exit status."""
    look = _looker(choice, probe)
    if watch:
        _watch(look, as_json, every_s)
    else:
        _show(look(), as_json)
    return 0


def check_device(name: str, as_json: bool) -> int:
    """`farm devices check`; returns the exit status."""
    unit = _named(name, asked=True)
    findings = check_unit(unit)
    history = health.Records().note_check(unit, findings)
    if as_json:
        members = [{"name": each.name, "ok": each.ok, "text": each.text} for each in findings]
        click.echo(json.dumps({"unit": unit.name, "findings": members}, indent=2))
    else:
        _show_findings(findings, history.quarantine)
    return int(not all(each.ok for each in findings))


def release_device(name: str, force: bool) -> None:
    """`farm devices release`."""
    unit = _named(name)
    with contextlib.closing(connect(unit)) as transport:
        click.echo(lease.release(unit, transport, force))


def trust_device(name: str, yes: bool) -> int:
    """`farm devices trust`; returns the exit status."""
    unit = _named(name)
    if unit.transport != "ssh":
        raise ConfigError(f"{unit.name}: only boards (transport: ssh) have a host key; phones ask on their screen")
    for _ in range(MAX_HOSTS):
        key = ssh.host_key_of(unit)
        if key.state == "known":
            click.echo(f"{unit.name}: {key.host} is trusted ({key.fingerprint})")
            return 0
        if not _accepted(key, yes):
            return 1
        ssh.trust(key)
    raise ConfigError(f"{unit.name}: {key.file} does not keep the key of {key.host}")


def _accepted(key: HostKey, yes: bool) -> bool:
    """Shows a host key, and asks whether it is the right one."""
    click.echo(safe_text.one_line(f"{key.host}: {key.algorithm} {key.fingerprint}"))
    if key.state == "revoked":
        raise ConfigError(f"{key.host}: known_hosts revokes this key; do not connect")
    if key.state == "changed":
        click.echo(f"WARNING: {key.file} holds another key: an attack, or the board was installed anew.")
    accepted = yes or click.confirm(f"Is this the key of {key.host}?")
    if not accepted:
        click.echo("not accepted", err=True)
    return accepted


def _looker(choice: Choice, probe: bool) -> Callable[[], list[Report]]:
    """Looks at all units that are meant."""

    def ask(each: Present) -> Report:
        if not may_fit(each.unit, choice):
            return roll_call.recall(each)
        report = roll_call.ask(each, connect)
        return _with_driver(report) if probe and report.state == State.READY else report

    def look() -> list[Report]:
        reports = roll_call.call(lookup.present(), ask, PROBE_DEADLINE_S if probe else roll_call.DEADLINE_S)
        chosen = select([Candidate(each.unit, each.state) for each in reports], choice)
        return [each for each in reports if each.unit in chosen]

    return look


def _with_driver(report: Report) -> Report:
    """The report with the driver that farmrt finds now."""
    try:
        with (
            contextlib.closing(connect(report.unit)) as transport,
            lease.acquire(report.unit, transport, "probe"),
        ):
            return dataclasses.replace(report, driver=_driver(report.unit, transport))
    except FarmError as error:
        reason = safe_text.word(error, roll_call.MAX_REASON)
        return dataclasses.replace(report, state=State.FAILING, reason=reason)


def _driver(unit: Unit, transport: Transport) -> Driver:
    return probe_unit(unit, transport, find_opencl(unit, None))


def _named(name: str, asked: bool = False) -> Unit:
    """The unit of that name."""
    choice = Choice(devices=(name,))
    there = lookup.candidates(choice) if asked else [Candidate(each.unit, each.state) for each in lookup.present()]
    return select(there, choice)[0]


def _show(reports: Sequence[Report], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(devices_json(reports), indent=2))
    else:
        table.show([devices_table(reports)])


def _watch(look: Callable[[], list[Report]], as_json: bool, every_s: float) -> None:
    """Until interrupted, which is how it is meant to end."""
    with contextlib.suppress(KeyboardInterrupt):
        if as_json or not sys.stdout.isatty():
            _watch_plainly(look, as_json, every_s)
        with Live(console=Console(), auto_refresh=False, screen=False) as live:
            while True:
                live.update(table.rich_table(devices_table(look())), refresh=True)
                time.sleep(every_s)


def _watch_plainly(look: Callable[[], list[Report]], as_json: bool, every_s: float) -> None:
    """Every change as a table, or as a line of JSON."""
    before = ""
    while True:
        reports = look()
        text = f"{json.dumps(devices_json(reports))}\n" if as_json else table.plain(devices_table(reports))
        if text != before:
            click.echo(text if as_json else f"{text}\n", nl=False)
            sys.stdout.flush()
        before = text
        time.sleep(every_s)


def _show_findings(findings: Sequence[Finding], quarantine: Quarantine | None) -> None:
    for each in findings:
        click.echo(safe_text.one_line(f"{'ok ' if each.ok else 'BAD'}  {each.name}: {each.text}"))
    if quarantine:
        click.echo(safe_text.one_line(quarantine.line))
