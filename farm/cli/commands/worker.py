"""`farm worker`."""

import re
import socket
from pathlib import Path

import click

from farm.cli.commands import options
from farm.cli.ranges import Number
from farm.safe_text import one_line
from runtime.errors import ConfigError


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
def command(scheduler: str, name: str | None, look_every_s: float, certificates: Path | None) -> None:
    """Offer this host's units to a cluster until interrupted, as they come and go.

    Which units there are is what `farm devices` says in this folder; the host's own is called as the host.
    """
    from farm.cli.clusters import PURPOSE
    from farm.cluster.address import parse_cluster_address
    from runtime.host import extras

    address, host = parse_cluster_address(scheduler), name or socket.gethostname()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", host):
        raise ConfigError(f"--name {host!r}: a host's name has letters, digits, '.', '_' and '-'")
    extras.load(PURPOSE, "distributed")
    from farm.cluster.worker import run_host

    run_host(address, certificates, host, lambda line: click.echo(one_line(line)), look_every_s)
