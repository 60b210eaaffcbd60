"""Options and help of `farm schema`."""

from typing import Any

import click

from farm.cli.commands import paths


@click.command(name="schema")
@click.option("-o", "--output", type=paths.NEW_FILE, help="File to write.  [default: standard output]")
def command(**given: Any) -> None:
    """Print the JSON Schema of all rows, which --json prints and the store keeps."""
    from farm.cli import schema

    schema.write(**given)
