"""Options and help of `farm clean`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number


@click.command(name="clean")
@options.unit_options
@click.option(
    "--older",
    "older_days",
    metavar="DAYS",
    type=Number(0),
    default=0.0,
    help="Only files that no job used for so long.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@options.json_option
def command(**given: Any) -> CommandResult:
    """Remove the files that jobs have left on units.

    They are sent again when they are needed. What killed processes left half written in build/ and reports/ goes too.
    A unit that somebody holds is left alone; exit status 1 then.
    """
    from farm.cli import clean

    return clean.clean(**given)
