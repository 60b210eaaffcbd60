"""Options and help of `farm release`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="release")
@click.argument("name", metavar="NAME")
@click.option("--force", is_flag=True, help="Also another person's reservation, or a job's lease.")
@options.cluster_option
@options.certificates_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Give a reserved unit back; the same as `farm devices release`."""
    from farm.cli import reserve

    return reserve.release(**given)
