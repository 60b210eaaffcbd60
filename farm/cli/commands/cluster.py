"""`farm cluster`: certificates of hosts."""

import socket
from pathlib import Path

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult, Document


@click.group(name="cluster")
def command() -> None:
    """Make the certificates by which the hosts of a cluster know each other."""


@command.command(name="init")
@click.argument("folder", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="This host's name.  [default: its host name]")
@options.json_option
def init(folder: Path | None, name: str | None, as_json: bool) -> CommandResult:
    """Make a certificate authority and this host's certificate, in FOLDER (~/.farm/cluster).

    Its key (ca-key.pem) stays on this host: who has it can let any host in. Nothing is overwritten.
    """
    from farm.cluster.certificates import create_authority, default_folder

    place = folder or default_folder()
    files = create_authority(place, name or socket.gethostname())
    if as_json:
        return Document(members={"folder": str(place), "files": [str(path) for path in files]})
    for path in files:
        click.echo(path)
    return 0


@command.command(name="host")
@click.argument("name", metavar="NAME")
@options.certificates_option
@options.json_option
def host(name: str, certificates: Path | None, as_json: bool) -> CommandResult:
    """Make the certificate of host NAME, as a folder to be copied to ~/.farm/cluster there.

    People who only send jobs need one as well.
    """
    from farm.cluster.certificates import create_host, default_folder

    folder = create_host(certificates or default_folder(), name)
    if as_json:
        return Document(members={"host": name, "folder": str(folder)})
    click.echo(f"{folder}: copy this folder to ~/.farm/cluster of {name}")
    return 0
