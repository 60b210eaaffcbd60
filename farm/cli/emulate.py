"""`farm emulate`: devices to try farm with."""

from __future__ import annotations

import click

from farm.cli import emulate_board, emulate_phone


@click.group(name="emulate")
def command() -> None:
    """Emulate a phone or a board on this machine, to try farm without one."""


command.add_command(emulate_phone.command)
command.add_command(emulate_board.command)
