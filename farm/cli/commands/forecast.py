"""Options and help of `farm forecast`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="forecast")
@options.model_argument
@options.unit_options
@click.option("--target-file", metavar="FILE", type=options.FILE, help="What `farmrt probe` printed on another unit.")
@options.fleet_options("farm forecast")
@options.memory_option
@options.runtime_option
@options.model_file_options
@options.json_option
def command(**given: Any) -> CommandResult:
    """Say what the models of MODEL.yml will do, before anything runs.

    Which operator runs where and why, where a format is converted, multiply-accumulates, weights and memory.
    """
    from farm.cli import forecast

    return forecast.forecast(**given)
