"""`farm schema`."""

from pathlib import Path

import click

from farm.cli.commands import paths


@click.command(name="schema")
@click.option("-o", "--output", type=paths.NEW_FILE, help="File to write.  [default: standard output]")
def command(output: Path | None) -> None:
    """Print the JSON Schema of all rows, which --json prints and the store keeps."""
    from farm import atomic_file
    from farm.rows import schema

    text = schema.text()
    if output:
        atomic_file.write(output, text.encode())
    else:
        click.echo(text, nl=False)
