"""`farm quantize`."""

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import verbosity, view, work
from farm.cli.envelope import CommandResult
from farm.cli.next_step import next_command
from farm.config.given_model import GivenModel
from farm.jobs.quantize import quantize_job
from farm.quantization.judge import LossBudget
from farm.quantization.quantizer import QuantizeOptions
from farm.rows.quantize import QuantizeRow
from farm.safe_text import one_line
from farm.tables import table
from farm.tables.quantize import quantize_lines, quantize_tables
from farm.units import lookup
from farm.units.selection import Selection

GOES_ON = "interrupted; the samples that were counted are kept below build/, the next call goes on with the others"


def quantize(
    model: GivenModel,
    data: Path | None,
    method: str,
    per_channel: bool,
    reduce_range: bool,
    weights_only: str | None,
    keep: tuple[str, ...],
    equalize: bool,
    correct_bias: bool,
    rounding: str,
    budget_sqnr: float | None,
    budget_accuracy: float | None,
    ranges: Path | None,
    output: Path | None,
    html: Path,
    device: tuple[str, ...],
    as_json: bool,
) -> CommandResult:
    """`farm quantize`; returns the exit status."""
    source = work.load(model)
    kept = tuple(name.strip() for names in keep for name in names.split(",") if name.strip())
    budget = LossBudget(budget_sqnr, budget_accuracy)
    weights = per_channel, reduce_range, weights_only or ""
    wanted = QuantizeOptions(data, method, *weights, kept, equalize, correct_bias, rounding, budget, ranges, output)
    with view.shown(only_slow=True, interrupted=GOES_ON) as progress:
        units = lookup.chosen_units(Selection(devices=device)) if device else ()
        rows = list(quantize_job(source, wanted, lambda text: progress.stage("host", text), units, progress))
    for line in (f"note: {row.model}: {note}" for row in rows for note in row.notes):
        click.echo(one_line(line), err=True)
    from farm.report.quantize_page import quantize_page

    status = work.written(html, quantize_page(rows))
    return work.finish(rows, as_json, lambda rows: _show(rows, "none" if status else str(html)), least_status=status)


def _show(rows: Sequence[QuantizeRow], page: str) -> None:
    table.show(quantize_tables(rows, verbosity.is_wanted()))
    for line in (*quantize_lines(rows), f"page: {page}"):
        click.echo(one_line(line))
    if files := [row.file for row in rows if row.file]:
        click.echo(one_line(f"next: {next_command('run', '--validate', model=Path(files[0]))}"))
