"""Options and help of `farm baseline`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.group(name="baseline")
def command() -> None:
    """Name stored runs, to compare others with them.

    `farm compare NAME run:latest` and `baseline: NAME` of a nightly.yml use such a name.
    """


@command.command(name="set")
@click.argument("name", metavar="NAME")
@click.argument("run", metavar="[RUN|latest]", default="latest")
@options.store_option
@options.json_option
def set_command(**given: Any) -> CommandResult:
    """Give a run a name; without RUN the newest finished one with nightly cases.

    A name that another run had moves to this one.
    """
    from farm.cli import baseline

    return baseline.set_command(**given)


@command.command(name="list")
@options.store_option
@options.json_option
def list_command(**given: Any) -> CommandResult:
    """List all names with their runs."""
    from farm.cli import baseline

    return baseline.list_command(**given)


@command.command(name="remove")
@click.argument("name", metavar="NAME")
@options.store_option
@options.json_option
def remove_command(**given: Any) -> CommandResult:
    """Take a name back; the run stays."""
    from farm.cli import baseline

    return baseline.remove_command(**given)
