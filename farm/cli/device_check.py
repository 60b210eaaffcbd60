"""`farm devices check`: tries each step of a job on a unit."""

from collections.abc import Sequence
from pathlib import Path

import click

from farm import safe_text
from farm.cli import cluster_hosts
from farm.cli.envelope import CommandResult, Document
from farm.jobs.fleet.opencl_library import check_unit
from farm.units import health, lookup
from farm.units.health import CheckResult
from farm.units.selection import Selection


def check_device(name: str, cluster: str | None, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm devices check`; returns the exit status."""
    if cluster:
        with cluster_hosts.connected(cluster, certificates) as hosts:
            return _check_result(name, *hosts.check(name), as_json)
    unit = lookup.chosen_units(Selection(devices=(name,)))[0]
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
