"""Options and help of `farm operators`."""

from pathlib import Path
from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="operators")
@click.argument("files", metavar="[MODULE.py|MODEL.yml]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--check", "checks", is_flag=True, help="Run every kernel and C function against the reference.")
@options.unit_options
@options.fleet_options("farm operators")
@options.json_option
def command(**given: Any) -> CommandResult:
    """List custom operators, those of the files and those that are installed, and check them.

    --check compares every variant with the NumPy reference on this machine or the units that are named: at the declared
    sizes and odd ones, in every precision, with local sizes that show whether bounds are tested.
    """
    from farm.cli import operators

    return operators.operators(**given)
