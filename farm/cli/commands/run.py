"""Options and help of `farm run`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult


def _refer_to_quantize(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
    """MACE takes the ranges of tensors while it runs samples."""
    if is_given:
        how = "`farm quantize MODEL.yml --data DIR` finds the ranges of tensors, and writes them in MACE's form"
        raise click.UsageError(f"--quantize_stat: {how}", context)


@click.command(name="run")
@options.model_argument
@options.unit_options
@options.rounds_option
@options.warmup_option
@click.option("--validate", is_flag=True, help="Compare the outputs with those of the model's framework.")
@click.option(
    "--layers",
    is_flag=True,
    help="Compare every operator's output too; names the first that departs.",
)
@click.option("--validate_all_layers", "layers", is_flag=True, hidden=True, help="MACE's name for --layers.")
@click.option(
    "--input",
    "inputs",
    metavar="[NAME=]FILE.npy",
    multiple=True,
    callback=paths.named_file,
    help="Input to run on; repeat for several.  [default: validation_inputs_data, else seeded noise in input_ranges]",
)
@click.option(
    "--input_dir",
    "--input-dir",
    "input_dir",
    metavar="DIR",
    type=paths.EXISTING_FOLDER,
    help="Run once on each sample there: files <input>_<sample>.npy, or raw values under any other ending.",
)
@click.option(
    "--output-dir",
    "--output_dir",
    "output_dir",
    type=paths.NEW_FOLDER,
    help="Keep the outputs here (.npy).",
)
@click.option(
    "--example", is_flag=True, help="Build and run the example application of the C API instead; compares its outputs."
)
@options.engine_option("farmrt, or another that runs the model; repeat for several.  [default: the file's, farmrt]")
@click.option(
    "--quantize_stat",
    is_flag=True,
    hidden=True,
    help="MACE's name for farm quantize.",
    expose_value=False,
    is_eager=True,
    callback=_refer_to_quantize,
)
@options.load_options
@options.fleet_options("farm run", spreads=True)
@options.cluster_options
@options.runtime_option
@options.model_file_options
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Run the models of MODEL.yml on every unit, time them, and compare their outputs.

    Each unit, model and runtime gives one row; exit status 1 when any is not ok. Rows are kept in the store.
    With --input_dir the row has the worst and the mean figures of all samples, and names the worst one; an interrupted
    run goes on with the samples that are missing.
    """
    from farm.cli import run

    return run.run(**given)
