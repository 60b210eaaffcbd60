"""Options and help of `farm reserve`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.command(name="reserve")
@click.argument("name", metavar="NAME")
@click.option(
    "--for",
    "duration_s",
    metavar="DURATION",
    required=True,
    callback=options.duration,
    help="How long: 45m, 2h, 1h30m, 3d.",
)
@click.option("--reason", metavar="TEXT", required=True, help="What for, shown to those who wait.")
@click.option("--force", is_flag=True, help="Also when a job or another person has the unit: that job ends.")
@options.cluster_option
@options.certificates_option
@options.json_option
def command(**given: Any) -> CommandResult:
    """Take a unit off for a time: no job uses it until then, wherever it is started, also after a reboot.

    `farm release NAME` gives it back earlier. Reserving it again replaces your own reservation.
    """
    from farm.cli import reserve

    return reserve.reserve(**given)
