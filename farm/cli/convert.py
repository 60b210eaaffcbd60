"""`farm convert`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from farm import safe_text
from farm.cli import options
from farm.cli.envelope import CommandResult, Document
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.jobs.convert import ConvertOptions, convert_job, write_standard
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.targets import TargetFiles, names_single_units, units_to_ask
from farm.rows.convert import ConvertRow
from farm.tables import table
from farm.tables.inspect import tensor_line
from farm.tables.run import selection_lines
from farm.tables.table import Table
from farm.units.selection import Selection

COLUMNS = (
    *("Model", "Unit", "SoC", "ABI", "Runtime", "Status", "Facts"),
    *("ONNX nodes", "Operators", "Steps", "MACs", "Weights", "Files"),
)
LEFT = frozenset({"Model", "Unit", "SoC", "ABI", "Runtime", "Status", "Facts", "Files"})


def convert(
    model: GivenModel,
    choice: Selection,
    fleet: FleetOptions,
    target_files: tuple[Path, ...],
    skip_missing: bool,
    explain: bool,
    standard: bool,
    output: Path | None,
    as_json: bool,
) -> CommandResult:
    """`farm convert`; returns the exit status."""
    source = options.load(model)
    if standard != (output is not None):
        raise click.UsageError("--standard and -o FILE belong together: the one file, and where it is written")
    if output:
        return _standard(source, output, as_json)
    units = units_to_ask(source, TargetFiles(target_files), choice)
    wanted = ConvertOptions(target_files, choice.socs, not names_single_units(choice), skip_missing, explain)
    rows = convert_job(source, units, fleet, wanted, lambda line: click.echo(safe_text.one_line(line), err=True))
    return options.finish(rows, as_json, lambda done: _show(done, explain))


def _standard(source: Deployment, output: Path, as_json: bool) -> CommandResult:
    size_bytes = write_standard(source, output)
    if as_json:
        return Document(members={"file": str(output), "size_bytes": size_bytes})
    click.echo(safe_text.one_line(f"{output}: {size_bytes / 1e6:.1f} MB"))
    return 0


def _show(rows: Sequence[ConvertRow], explain: bool) -> None:
    if explain:
        explained = {row.model: row for row in rows}
        for line in [line for row in explained.values() for line in _explanation(row)]:
            click.echo(line)
        for line in [line for row in rows for line in _storages(row)]:
            click.echo(line)
    table.show([Table("", COLUMNS, [_cells(row) for row in rows], LEFT)])
    for line in selection_lines(rows):
        click.echo(safe_text.one_line(line))


def _explanation(row: ConvertRow) -> Iterator[str]:
    yield f"{row.model}: {row.operators_before} ONNX nodes -> {row.operators_after} operators"
    for done in row.passes:
        yield f"  {done.name}: {len(done.changes)}"
        yield from (f"    {change}" for change in done.changes)
    yield ""


def _storages(row: ConvertRow) -> Iterator[str]:
    """The tensors of a plan, and how each of them lies in memory."""
    if row.tensors:
        yield f"{row.model} on {row.unit or row.soc} ({row.runtime}): origin and storage"
        yield from (f"  {tensor_line(tensor)}" for tensor in row.tensors)
        yield ""


def _cells(row: ConvertRow) -> list[str]:
    return [
        *(row.model, row.unit or "-", row.soc or "-", row.abi or "-", row.runtime, row.status.value, row.facts or "-"),
        *(_count(value) for value in (row.operators_before, row.operators_after, row.steps, row.macs)),
        "-" if row.weights_bytes is None else table.size(row.weights_bytes),
        ", ".join(path for path in (row.graph_file, row.plan_file, row.data_file, *row.code_files) if path),
    ]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
