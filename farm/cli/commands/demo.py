"""Options and help of `farm demo`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult


@click.command(name="demo")
@click.option(
    "--only",
    type=click.Choice(["main", "nights"]),
    help="Only the main job on this machine, or only the nights of an emulated farm.",
)
@click.option("--quick", is_flag=True, help="In a minute: a short search, and no nights.")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=paths.NEW_FOLDER,
    default="reports/emulated_farm",
    show_default=True,
    help="Report on the nights.",
)
@options.opencl_option
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Show what farm does on this machine and on emulated phones, and write reports of it.

    Runs, validates, profiles and tunes a network, and tunes it on a phone's GPU that is played; then lets two phones
    live through some nights, of which one is hot and the last one brings a slowdown.
    """
    from farm.cli import demo

    return demo.demo(**given)
