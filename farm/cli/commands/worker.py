"""Options and help of `farm worker`."""

from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import Number


@click.command(name="worker")
@click.option("--scheduler", metavar="URL", required=True, help="tls://HOST:PORT, as `farm scheduler` says.")
@click.option("--name", metavar="NAME", help="This host's name in the cluster.  [default: its host name]")
@click.option(
    "--look-every",
    "look_every_s",
    metavar="SECONDS",
    type=Number(0.2, 3600),
    default=5.0,
    show_default=True,
    help="How often units are looked for.",
)
@options.certificates_option
def command(**given: Any) -> CommandResult:
    """Offer this host's units to a cluster until interrupted, as they come and go.

    Which units there are is what `farm devices` says in this folder; the host's own is called as the host.
    """
    from farm.cli import worker

    return worker.worker(**given)
