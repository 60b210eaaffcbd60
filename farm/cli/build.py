"""`farm build`: compiles farmrt."""

from __future__ import annotations

import click

from runtime.native.build import ABIS, build_farmrt


@click.command(name="build")
@click.option("--abi", default="host", show_default=True, type=click.Choice(list(ABIS)), help="What to compile for.")
def command(abi: str) -> int:
    """Compile farmrt, the runtime that executes plans on a unit."""
    program = build_farmrt(abi)
    click.echo(f"{program} ({program.stat().st_size} bytes)")
    return 0
