"""Options and help of `farm emulate board`."""

from pathlib import Path
from typing import Any

import click

from farm.cli.commands import options
from farm.cli.envelope import CommandResult
from farm.cli.ranges import WholeNumber
from farm.emulation import board as boards

ACTIONS = ("make", "start", "stop", "status", "remove")


@click.command(name="board")
@click.argument("action", type=click.Choice(ACTIONS))
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=boards.DEFAULT_FOLDER,
    show_default=True,
    help="Where the board lies.",
)
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=boards.DEFAULT_PORT,
    show_default=True,
    help="Port of its sshd, on 127.0.0.1; 0 is any that is free.",
)
@click.option("--mirror", metavar="URL", help="Debian mirror.  [default: the one that apt uses]")
@click.option("--suite", metavar="NAME", help="Debian suite, with --mirror.")
@click.option("--packages", is_flag=True, help="Remove what was downloaded, too.")
@options.json_option
def command(**given: Any) -> CommandResult:
    """Emulate an ARM64 board: Debian under qemu-user, with real sshd and real PoCL. Needs root.

    `start` makes it first where it is not there (minutes), and says how to reach it. `stop` ends all that runs on it.
    `status` says what there is; its exit status is 1 when the board does not run. `remove` deletes it.
    """
    from farm.cli import emulate_board

    return emulate_board.emulate_board(**given)
