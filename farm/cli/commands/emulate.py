"""`farm emulate`: devices to try farm with."""

import click

from farm.cli.lazy_group import LazyGroup

COMMANDS = {"phone": "farm.cli.commands.emulate_phone", "board": "farm.cli.commands.emulate_board"}


@click.group(name="emulate", cls=LazyGroup, modules=COMMANDS)
def command() -> None:
    """Emulate a phone or a board on this machine, to try farm without one."""
