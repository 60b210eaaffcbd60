"""Options and help of `farm scheduler`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import WholeNumber

PORT = 8786


@click.command(name="scheduler")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=WholeNumber(0, 65535), default=PORT, show_default=True, help="Port to listen on; 0: any.")
@click.option("--plain", is_flag=True, help="Without certificates, for this machine alone.")
@options.certificates_option
def command(**given: Any) -> CommandResult:
    """Run the scheduler of a cluster until interrupted: it knows hosts, units and jobs.

    Only hosts and people with a certificate of `farm cluster` are let in.
    """
    from farm.cli import scheduler

    return scheduler.scheduler(**given)
