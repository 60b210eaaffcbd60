"""Options and help of `farm run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="run")
@options.model_argument
@options.unit_options
@options.rounds_option
@options.warmup_option
@click.option(
    "--validate", is_flag=True, help="Compare the outputs with those of the model's framework (docs/models.md)."
)
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
@options.fleet_options("farm run", spreads=True)
@options.trust_model_option
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Run the models of MODEL.yml on every unit, time them, and compare their outputs.

    Each unit, model and runtime gives one row; exit status 1 when any is not ok. Rows are kept in the store.
    """
    from farm.cli import run

    return run.run(**given)
