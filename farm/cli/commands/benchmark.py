"""Options and help of `farm benchmark`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult
from farm.cli.ranges import WholeNumber


@click.command(name="benchmark")
@options.model_argument
@options.unit_options
@click.option(
    "--round", "rounds", type=WholeNumber(1, 100_000), default=100, show_default=True, help="Measured rounds."
)
@options.warmup_option
@options.load_options
@options.fleet_options("farm benchmark", spreads=True)
@click.option("--trace", metavar="FILE", type=paths.NEW_FILE, help="Write a trace for Perfetto or chrome://tracing.")
@click.option("--html", metavar="FILE", type=paths.NEW_FILE, help="Write a page of the profile, one file, to look at.")
@options.cluster_options
@options.runtime_option
@options.model_file_options
@options.store_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Profile the models of MODEL.yml, operator by operator.

    Warm-up, rounds without and with operator times, operators in run order and by time, by type, multiply-accumulates
    and a summary. All times are in milliseconds, rates in 10^9 a second.
    """
    from farm.cli import benchmark

    return benchmark.benchmark(**given)
