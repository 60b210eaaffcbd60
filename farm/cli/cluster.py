"""`farm cluster`: certificates of hosts."""

import socket
from pathlib import Path

import click

from farm.cli.envelope import CommandResult, Document
from farm.cluster.certificates import create_authority, create_host, default_folder


def init(folder: Path | None, name: str | None, as_json: bool) -> CommandResult:
    """`farm cluster init`."""
    place = folder or default_folder()
    files = create_authority(place, name or socket.gethostname())
    if as_json:
        return Document(members={"folder": str(place), "files": [str(path) for path in files]})
    for path in files:
        click.echo(path)
    return 0


def host(name: str, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm cluster host`."""
    folder = create_host(certificates or default_folder(), name)
    if as_json:
        return Document(members={"host": name, "folder": str(folder)})
    click.echo(f"{folder}: copy this folder to ~/.farm/cluster of {name}")
    return 0
