"""`farm schema`."""

from pathlib import Path

import click

from farm import atomic_file
from farm.rows import schema


def write(output: Path | None) -> None:
    """`farm schema`."""
    text = schema.text()
    if output:
        atomic_file.write(output, text.encode())
    else:
        click.echo(text, nl=False)
