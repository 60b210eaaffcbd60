"""Options and help of `farm devices`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number

NAME = click.argument("name", metavar="NAME")


@click.group(name="devices", invoke_without_command=True)
@options.unit_options
@options.cluster_option
@options.certificates_option
@options.json_option
@click.option("--probe", is_flag=True, help="Ask farmrt for GPU and driver, instead of what was last known of them.")
@click.option("--watch", is_flag=True, help="Look again and again until interrupted.")
@click.option(
    "--every",
    "every_s",
    metavar="SECONDS",
    type=Number(0.5, 3600),
    default=5.0,
    show_default=True,
    help="How often --watch looks.",
)
@click.pass_context
def command(context: click.Context, /, **given: Any) -> CommandResult:
    """List the units: those of devices.yml and the phones that are plugged in, and the state of each.

    NAME in the commands below is a unit's name in this list, or its serial.
    """
    if context.invoked_subcommand:
        return None
    from farm.cli import devices

    return devices.devices(**given)


@command.command(name="check")
@NAME
@options.cluster_option
@options.certificates_option
@options.json_option
def check_device(**given: Any) -> CommandResult:
    """Check a unit: connection, files, state, farmrt. A good check ends its quarantine, a bad one begins it.

    Exit status 1 when a point of the check is bad.
    """
    from farm.cli import device_check

    return device_check.check_device(**given)


@command.command(name="release")
@NAME
@click.option("--force", is_flag=True, help="Also when its holder seems to be alive: that job ends with an error.")
@options.cluster_option
@options.certificates_option
@options.json_option
def release_device(**given: Any) -> CommandResult:
    """End a lease that its holder left behind, and what it left running on the unit."""
    from farm.cli import reserve

    return reserve.release(**given)


@command.command(name="trust")
@NAME
@click.option("--yes", is_flag=True, help="Accept without asking; compare the fingerprint afterwards.")
@options.json_option
def trust_device(**given: Any) -> CommandResult:
    """Show the host key of a board, or of a machine with an adb server, and accept it; those of jump hosts first.

    Compare the fingerprint with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` shows on the board.
    """
    from farm.cli import trust

    return trust.trust_device(**given)
