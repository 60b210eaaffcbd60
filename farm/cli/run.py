"""`farm run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import options, store_options, view
from farm.cli.envelope import CommandResult
from farm.cli.fleet_options import fleet_options
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.run import LoadOptions, RunOptions, run_job
from farm.rows.run import RunRow
from farm.tables import table
from farm.tables.run import artifact_lines, run_tables
from farm.units.selection import Selection


@click.command(name="run")
@options.model_argument
@options.unit_options
@options.rounds_option
@options.warmup_option
@click.option("--validate", is_flag=True, help="Compare the outputs with those of ONNX Runtime.")
@click.option("--layers", is_flag=True, help="Compare every operator's output too; names the first that departs.")
@click.option(
    "--input",
    "inputs",
    metavar="[NAME=]FILE.npy",
    multiple=True,
    help="Input to run on; repeat for several.  [default: validation_inputs_data, else seeded noise in input_ranges]",
)
@click.option("--output-dir", type=click.Path(path_type=Path, file_okay=False), help="Keep the outputs here (.npy).")
@options.load_options
@fleet_options("farm run", spreads=True)
@store_options.store_option
@options.json_option
def command(
    model_file: Path,
    choice: Selection,
    rounds: int,
    warmup: int,
    validate: bool,
    layers: bool,
    inputs: tuple[str, ...],
    output_dir: Path | None,
    load: LoadOptions,
    fleet: FleetOptions,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """Run the models of MODEL.yml on every unit, time them, and compare their outputs.

    Each unit, model and runtime gives one row; exit status 1 when any is not ok. Rows are kept in the store.
    """
    source = options.load_deployment(model_file)
    units = options.select_units(choice, source)
    wanted = RunOptions(rounds, warmup, validate, layers, inputs, output_dir, load)
    with store_options.keeping(store) as keeper, view.shown(only_on_terminal=True) as progress:
        rows = list(keeper.recorded(run_job(source, units, wanted, fleet, progress)))
    return options.finish(rows, as_json, _show, keeper)


def _show(rows: Sequence[RunRow]) -> None:
    table.show(run_tables(rows))
    for line in artifact_lines(rows):
        click.echo(line)
