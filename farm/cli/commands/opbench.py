"""Options and help of `farm opbench`."""

from pathlib import Path
from typing import Any

import click

from farm.cli.commands import options
from farm.cli.commands.execution import hint_options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number
from runtime.types import PRECISIONS

_LABELS = list(PRECISIONS)


@click.command(name="opbench")
@click.option("--filter", "pattern", metavar="REGEX", default=".", help="Benchmarks whose name holds this.")
@click.option("--list", "only_list", is_flag=True, help="Print the names and run nothing.")
@click.option(
    "--min-time",
    type=Number(0.001, 600),
    default=0.2,
    show_default=True,
    help="Seconds of device time for each; up to five times that where times vary.",
)
@click.option("--variants", "all_variants", is_flag=True, help="Every variant of each kernel, not only the default.")
@click.option("--precision", type=click.Choice(_LABELS), help="Only this precision.  [default: all of the unit]")
@click.option("--memory", type=click.Choice(["buffer", "image"]), help="Only this memory.  [default: all of the unit]")
@click.option(
    "--operators",
    "files",
    metavar="MODULE.py|MODEL.yml",
    multiple=True,
    type=click.Path(path_type=Path),
    help="The custom operators of this file too; repeatable. Those that are installed are there in any case.",
)
@hint_options
@options.unit_options
@options.fleet_options("farm opbench")
@options.cluster_options
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Time single operators: each kernel of the kernel table on typical shapes.

    Names are KERNEL/MEMORY/PRECISION/CASE/VARIANT, say
    conv1x1/buffer/fp32/Conv_1x512x14x14_K1x1S1x1D1x1G1_512/BLOCK16_VECTOR16_PIXELS8_FMA1.
    Time is the median; spread is the half-width of its 95 % interval.
    """
    from farm.cli import opbench

    return opbench.opbench(**given)
