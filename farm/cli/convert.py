"""`farm convert`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from farm.cli import options
from farm.cli.envelope import CommandResult
from farm.cli.fleet_options import fleet_options
from farm.config.deployment import Deployment
from farm.config.inventory import Unit
from farm.jobs.convert import convert_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.rows.convert import ConvertRow
from farm.tables import table
from farm.tables.table import Table
from farm.units.selection import Selection
from runtime.errors import NoUnitError

COLUMNS = ("Model", "Unit", "Runtime", "Status", "ONNX nodes", "Operators", "Steps", "MACs", "Weights", "Files")
LEFT = frozenset({"Model", "Unit", "Runtime", "Status", "Files"})


@click.command(name="convert")
@options.model_argument
@options.unit_options
@fleet_options("farm convert")
@click.option("--explain", is_flag=True, help="Say what each pass did.")
@options.json_option
def command(model_file: Path, choice: Selection, fleet: FleetOptions, explain: bool, as_json: bool) -> CommandResult:
    """Convert the models of MODEL.yml: the graph as ONNX, and a plan with its weights for each unit.

    The files lie in build/LIBRARY/model, and in build/LIBRARY/code what model_graph_format: code asks for. Without a
    unit of the deployment file's ABIs and SoCs only the graph is made.
    """
    source = options.load_deployment(model_file)
    rows = convert_job(source, _units(choice, source), fleet)
    return options.finish(rows, as_json, lambda done: _show(done, explain))


def _units(choice: Selection, source: Deployment) -> list[Unit]:
    try:
        return options.select_units(choice, source)
    except NoUnitError:
        if choice.names_units:
            raise
        return []


def _show(rows: Sequence[ConvertRow], explain: bool) -> None:
    if explain:
        explained = {row.model: row for row in rows}
        for row in explained.values():
            for line in _explanation(row):
                click.echo(line)
    table.show([Table("", COLUMNS, [_cells(row) for row in rows], LEFT)])


def _explanation(row: ConvertRow) -> Iterator[str]:
    yield f"{row.model}: {row.operators_before} ONNX nodes -> {row.operators_after} operators"
    for done in row.passes:
        yield f"  {done.name}: {len(done.changes)}"
        yield from (f"    {change}" for change in done.changes)
    yield ""


def _cells(row: ConvertRow) -> list[str]:
    return [
        *(row.model, row.unit or "-", row.runtime, row.status.value),
        *(_count(value) for value in (row.operators_before, row.operators_after, row.steps, row.macs)),
        "-" if row.weights_bytes is None else table.size(row.weights_bytes),
        ", ".join(path for path in (row.graph_file, row.plan_file, row.data_file, *row.code_files) if path),
    ]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
