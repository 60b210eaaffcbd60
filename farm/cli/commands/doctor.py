"""Options and help of `farm doctor`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="doctor")
@click.option("--device", metavar="UNIT", help="Of this unit, by name or serial, instead of this machine.")
@click.option("--all", "every", is_flag=True, help="Try every OpenCL driver, those behind one that works too.")
@options.json_option
def command(**given: Any) -> CommandResult:
    """Say what this machine, or a unit, has, what it lacks, and what to do about it.

    Exit status 1 when something is missing without which nothing runs.
    """
    from farm.cli import doctor

    return doctor.doctor(**given)
