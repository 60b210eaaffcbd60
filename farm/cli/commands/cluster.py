"""Options and help of `farm cluster`."""

from pathlib import Path
from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult


@click.group(name="cluster")
def command() -> None:
    """Make the certificates by which the hosts of a cluster know each other."""


@command.command(name="init")
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="This host's name.  [default: its host name]")
@options.json_option
def init(**given: Any) -> CommandResult:
    """Make a certificate authority and this host's certificate, in FOLDER (~/.farm/cluster).

    Its key (ca-key.pem) stays on this host: who has it can let any host in. Nothing is overwritten.
    """
    from farm.cli import cluster

    return cluster.init(**given)


@command.command(name="host")
@click.argument("name", metavar="NAME")
@options.certificates_option
@options.json_option
def host(**given: Any) -> CommandResult:
    """Make the certificate of host NAME, as a folder to be copied to ~/.farm/cluster there.

    People who only send jobs need one as well.
    """
    from farm.cli import cluster

    return cluster.host(**given)
