"""Options and help of `farm engines`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult
from farm.cli.ranges import WholeNumber


@click.command(name="engines")
@options.model_argument
@options.unit_options
@options.engine_option("An engine that takes part; repeat for several.  [default: farmrt and all that are installed]")
@click.option(
    "--against", metavar="VERSION", default="", help="Compares the engine with this version of it, fetched by pip."
)
@click.option(
    "--turns",
    type=WholeNumber(1, 1000),
    help="Blocks of each engine, in random order.  [default: 8, or what intervals between so many engines need]",
)
@click.option(
    "--round",
    "rounds",
    type=WholeNumber(1, 100_000),
    help="Measured rounds of a block.  [default: as many as take 0.4 s, 10 at least]",
)
@options.warmup_option
@click.option("--fresh", is_flag=True, help="Forget the turns that an interrupted call has measured.")
@options.load_options
@options.fleet_options("farm engines", spreads=True)
@click.option("--html", metavar="FILE", type=paths.NEW_FILE, help="Write a page of all engines, one file, to look at.")
@options.runtime_option
@options.model_file_options
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Run the models of MODEL.yml in several engines, in turns, and say which is the fastest.

    A block is a fresh process that loads the model and runs --round rounds. An engine whose outputs are wrong takes no
    part in the turns. Each unit, model, engine and runtime gives one row; the fastest is named only where the intervals
    say so. The same command goes on where an earlier one was interrupted.
    """
    from farm.cli import engines

    return engines.engines(**given)
