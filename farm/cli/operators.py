"""`farm operators`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from farm.cli import view
from farm.cli.envelope import CommandResult, Document
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.models.custom import operators_of_files
from farm.jobs.operator_check import OperatorCheck, check_job
from farm.rows.status import Status
from farm.tables import table
from farm.tables.table import Table
from farm.units import lookup
from farm.units.selection import ANY, Selection
from runtime.custom.binding import BoundOperator
from runtime.custom.declaration import output_type
from runtime.errors import ConfigError

COLUMNS = ("Operator", "Inputs", "Attributes", "Output", "GPU", "CPU", "Cases", "Format", "Module")
HOST = Selection(devices=("host",))
CHECK_COLUMNS = ("Operator", "Unit", "Where", "Launches", "Status")


def operators(
    files: Sequence[Path], checks: bool, choice: Selection, fleet: FleetOptions, as_json: bool
) -> CommandResult:
    """`farm operators`; returns the exit status."""
    found = operators_of_files(files)
    if checks and not found:
        raise ConfigError("no custom operator to check: name a MODULE.py or a MODEL.yml that has some")
    results: list[OperatorCheck] = []
    if checks:
        units = lookup.chosen_units(HOST if choice == ANY else choice)
        with view.shown(only_slow=True) as progress:
            results = list(check_job(found, units, fleet, progress))
    status = int(any(result.status != Status.OK for result in results))
    if as_json:
        members = {"operators": [_member(each) for each in found], "checks": [dataclasses.asdict(r) for r in results]}
        return Document(status, members=members)
    if checks:
        _show_checks(results)
    else:
        table.show([Table("", COLUMNS, [_cells(each) for each in found], frozenset(COLUMNS))])
    return status


def _show_checks(results: Sequence[OperatorCheck]) -> None:
    cells = [[r.operator, r.unit, r.where, str(r.launches), r.status.value] for r in results]
    table.show([Table("", CHECK_COLUMNS, cells, frozenset(CHECK_COLUMNS) - {"Launches"})])
    for result in results:
        for line in result.reason.splitlines():
            click.echo(f"{result.operator} ({result.where}): {line}", err=True)


def _member(bound: BoundOperator) -> dict[str, Any]:
    declared = bound.declared
    return {
        "domain": declared.domain,
        "name": declared.name,
        "inputs": [dataclasses.asdict(each) for each in bound.inputs],
        "attributes": {name: dataclasses.asdict(attribute) for name, attribute in declared.attributes.items()},
        "output_type": output_type(declared),
        "kernels": {str(memory): [v.name for v in kernel.variants] for memory, (_, kernel) in bound.kernels.items()},
        "has_c": bound.c is not None,
        "cases": len(declared.cases),
        "data_format": declared.data_format,
        "module": str(bound.module),
        "digest": bound.digest,
    }


def _cells(bound: BoundOperator) -> list[str]:
    declared = bound.declared
    kernels = ", ".join(f"{memory} ({len(kernel.variants)})" for memory, (_, kernel) in bound.kernels.items())
    return [
        bound.title,
        ", ".join(each.name + ("?" if each.optional else "") for each in bound.inputs),
        ", ".join(declared.attributes) or "-",
        output_type(declared),
        kernels or "-",
        "C" if bound.c else "-",
        str(len(declared.cases)),
        declared.data_format,
        str(bound.module),
    ]
