"""Options and help of `farm accept`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="accept")
@click.argument("names", metavar="[UNIT]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Seconds under load in place of three minutes.")
@click.option("--fresh", is_flag=True, help="Forget what was found before.")
@options.unit_options
@options.fleet_options("farm accept")
@options.json_option
def command(**given: Any) -> CommandResult:
    """Find out what may be believed of a new unit: ten minutes for a phone or board.

    Kernels, clock, launches, memory, limits, sensors, throttling, link and storage are tried. Jobs there then do what
    the findings say; a unit that computes wrongly goes into quarantine. Findings are kept as they come: an interrupted
    acceptance goes on when it is called again. After an update of the system all is to be done again.

    Exit status 1 when a check fails.
    """
    from farm.cli import accept

    return accept.accept(**given)
