"""`farm scheduler`."""

from pathlib import Path

import click

from farm.cli.clusters import PURPOSE
from farm.cli.envelope import CommandResult
from farm.cluster.address import ClusterAddress, refuse_plain
from runtime.host import extras


def scheduler(host: str, port: int, plain: bool, certificates: Path | None) -> CommandResult:
    """`farm scheduler`; ends when it is told to."""
    address = refuse_plain(ClusterAddress("tcp" if plain else "tls", host, port))
    extras.load(PURPOSE, "distributed")
    from farm.cluster.scheduler import run_scheduler

    run_scheduler(address, certificates, lambda address: click.echo(f"scheduler at {address}"))
    return 0
