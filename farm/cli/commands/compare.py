"""Options and help of `farm compare`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.commands.execution import execution_options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number, WholeNumber


@click.command(name="compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("model_file", metavar="[MODEL.yml]", required=False, type=options.MODEL_FILE)
@options.unit_options
@options.runtime_option
@click.option(
    "--turns", type=WholeNumber(8, 1000), default=10, show_default=True, help="How often A and B are measured each."
)
@click.option(
    "--repeat",
    metavar="N",
    type=WholeNumber(1, 1000),
    default=1,
    show_default=True,
    help="Compares A with itself, given as B too, so often, and tells how often the 95 % interval covers 1.",
)
@click.option(
    "--margin",
    "margin_percent",
    metavar="PERCENT",
    type=Number(0, 100),
    help="Differences of no more than this do not count.  [default: 1; 4 for stored runs]",
)
@click.option("--profiled-turns", type=WholeNumber(0), default=0, hidden=True, help="How often operators are timed.")
@click.option("--fresh", is_flag=True, help="Forget the turns that an interrupted call has measured.")
@options.shape_option
@options.weights_option
@options.memory_option
@execution_options
@options.fleet_options("farm compare")
@options.cluster_options
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Is B slower than A?

    A and B are two stored runs (run:ID, run:latest, or the name of a baseline), two deployment files, or what runs
    MODEL.yml: two engines or versions of one (onnxruntime==1.31.0), or two builds of farm: a branch, tag or commit of
    its repository, or a folder with a checkout. All but stored runs are measured in turns on one unit. The same command
    goes on where an earlier one was interrupted.

    Exit status 1: B is slower beyond the noise, builds or engines disagree on an output, or a job failed.
    """
    from farm.cli import compare

    return compare.compare(**given)
