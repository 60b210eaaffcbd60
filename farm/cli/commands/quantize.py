"""Options and help of `farm quantize`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number

METHODS = ("minmax", "percentile", "entropy", "mse")  # these three are the job's
ROUNDINGS = ("nearest", "adaptive")
BITS = ("int8", "int4")
PAGE = "reports/quantize.html"


@click.command(name="quantize")
@options.model_argument
@click.option(
    "--data",
    metavar="DIR",
    type=paths.EXISTING_FOLDER,
    help="Samples whose values show each tensor's range: files <input>_<sample>.npy, or raw values.",
)
@click.option("--input_dir", "--input-dir", "data", hidden=True, type=paths.EXISTING_FOLDER, help="MACE's name.")
@click.option("--quantize_stat", is_flag=True, hidden=True, expose_value=False, help="MACE's name for this command.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="minmax",
    show_default=True,
    help="How a range is chosen: all values, all but outliers, least divergence, or least square error.",
)
@click.option("--per-channel", is_flag=True, help="A scale for each output channel of a weight.")
@click.option("--reduce-range", is_flag=True, help="Weights in seven bits, which CPUs with AVX2 alone multiply faster.")
@click.option(
    "--weights-only",
    type=click.Choice(BITS),
    default=None,
    help="Only weights become integers; the model computes in float.",
)
@click.option("--keep", metavar="NAMES", multiple=True, help="Layers that stay in float, with commas; repeatable.")
@click.option("--equalize", is_flag=True, help="Scale channels between layers to one range in both their weights.")
@click.option("--correct-bias", is_flag=True, help="Take the mean error of rounded weights out of the biases.")
@click.option(
    "--rounding",
    type=click.Choice(ROUNDINGS),
    default="nearest",
    show_default=True,
    help="Each weight to the nearest step, or up or down as the layer's outputs are closest (some minutes).",
)
@click.option(
    "--budget-sqnr",
    metavar="dB",
    type=Number(-300, 300),
    help="Keep the layers that lose most in float, until the worst output has this signal to noise ratio.",
)
@click.option(
    "--budget-accuracy",
    metavar="P",
    type=Number(0, 100),
    help="The same until P percent of the samples have their largest output where the float model has it.",
)
@click.option(
    "--ranges",
    metavar="FILE",
    type=paths.EXISTING_FILE,
    help="Ranges in place of those that samples show: MACE's quantize_range_file.",
)
@click.option("-o", "--output", metavar="FILE", type=paths.NEW_FILE, help="The ONNX file.  [default: below build/]")
@click.option(
    "--html", metavar="FILE", type=paths.NEW_FILE, default=PAGE, show_default=True, help="The page of all layers."
)
@click.option(
    "--device",
    metavar="UNIT",
    multiple=True,
    help="Time both models, in turns, on this unit, for the page; repeatable.",
)
@options.model_file_options
@options.json_option
def command(**given: Any) -> CommandResult:
    """Write the models of MODEL.yml in eight bits: ONNX with QuantizeLinear and DequantizeLinear (QDQ).

    ONNX Runtime runs the float model on the samples of --data. Each layer is then quantised alone, which shows what it
    loses; those that lose most stay in float where a budget asks for it. Beside the file lie the ranges, in MACE's form
    (quantize_range_file). An interrupted call goes on with the samples that are missing.

    Without --data, where --ranges or --weights-only make it needless, nothing is measured.
    """
    from farm.cli import quantize

    return quantize.quantize(**given)
