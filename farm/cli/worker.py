"""`farm worker`."""

import re
import socket
from pathlib import Path

import click

from farm.cli.clusters import PURPOSE
from farm.cli.envelope import CommandResult
from farm.cluster.address import parse_cluster_address
from farm.safe_text import one_line
from runtime.errors import ConfigError
from runtime.host import extras


def worker(scheduler: str, name: str | None, look_every_s: float, certificates: Path | None) -> CommandResult:
    """`farm worker`; ends when it is told to."""
    address, host = parse_cluster_address(scheduler), name or socket.gethostname()
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", host):
        raise ConfigError(f"--name {host!r}: a host's name has letters, digits, '.', '_' and '-'")
    extras.load(PURPOSE, "distributed")
    from farm.cluster.worker import run_host

    run_host(address, certificates, host, lambda line: click.echo(one_line(line)), look_every_s)
    return 0
