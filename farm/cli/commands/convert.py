"""Options and help of `farm convert`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult


@click.command(name="convert")
@options.model_argument
@options.unit_options
@click.option(
    "--target-file",
    "target_files",
    metavar="FILE",
    type=options.FILE,
    multiple=True,
    help="What `farmrt probe` printed on a unit that is not here; repeatable.",
)
@click.option(
    "--standard", is_flag=True, help="Write one ONNX file of ONNX's own operators alone, as other runtimes read it."
)
@click.option("-o", "--output", metavar="FILE", type=paths.NEW_FILE, help="With --standard: the ONNX file to write.")
@options.skip_missing_option
@options.fleet_options("farm convert")
@click.option("--explain", is_flag=True, help="Say what each pass did, and origin and storage of each tensor.")
@options.runtime_option
@options.model_file_options
@options.json_option
def command(**given: Any) -> CommandResult:
    """Convert the models of MODEL.yml: the graph as ONNX, and a plan with its weights for each ABI and SoC.

    Units that are here are asked what they are. For each other ABI of target_abis and SoC of target_socs the plan is
    made from what is known: a --target-file, what a unit of the SoC said before, or farm's own table of SoCs. What
    cannot be made is a failed row that says what to do. --soc names SoCs in place of target_socs; with --device or
    --tag plans are made for those units alone.

    With --standard nothing is made for units: the model between the inputs and outputs that are named, with their
    shapes, is written as it was before any operators were fused.

    The files lie in build/LIBRARY/model, and in build/LIBRARY/code what model_graph_format: code asks for.
    """
    from farm.cli import convert

    return convert.convert(**given)
