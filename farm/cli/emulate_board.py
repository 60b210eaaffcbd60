"""`farm emulate board`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from farm.emulation import board as boards
from farm.emulation import debian_root
from farm.emulation.board import Board
from runtime.errors import ConfigError

NOT_RUNNING = 1


def emulate_board(action: str, folder: Path, port: int, mirror: str | None, suite: str | None, packages: bool) -> int:
    """`farm emulate board`; returns the exit status."""
    if (mirror is None) != (suite is None):
        raise ConfigError("--mirror and --suite belong together")
    board, source = Board(folder, port), (mirror, suite) if mirror and suite else None
    if action == "make":
        boards.make(board, click.echo, source)
    elif action == "start":
        boards.start(board, click.echo, source)
    elif action == "stop":
        click.echo("stopped" if boards.stop(board) else "it was not running")
    elif action == "remove":
        boards.remove(board, packages)
    return _show(board, action)


def _show(board: Board, action: str) -> int:
    process = boards.running(board)
    if process is None:
        click.echo(f"{board.folder}: {'made, not running' if board.exists else 'no board'}")
        return NOT_RUNNING if action == "status" else 0
    port = boards.running_port(board)
    key, known = (shlex.quote(str(path)) for path in (board.key_file, board.known_hosts))
    click.echo(
        f"{board.folder}: running, process {process.pid}; entry for devices.yml, also in {board.devices_file}:\n"
    )
    click.echo(board.devices_file.read_text())
    click.echo(f"its host key: {known}; to log in:")
    click.echo(f"  ssh -i {key} -p {port} -o UserKnownHostsFile={known} {debian_root.USER}@{boards.ADDRESS}")
    return 0
