"""`farm emulate board`."""

import dataclasses
import functools
import shlex
from pathlib import Path
from typing import Any

import click

from farm.cli.envelope import CommandResult, Document
from farm.emulation import board as boards
from farm.emulation import debian_root
from farm.emulation.board import Board
from runtime.errors import ConfigError

NOT_RUNNING = 1
STATUS, STOP = "status", "stop"
RUNNING, MADE, ABSENT = "running", "made", "absent"


def emulate_board(
    action: str, folder: Path, port: int, mirror: str | None, suite: str | None, packages: bool, as_json: bool
) -> CommandResult:
    """`farm emulate board`; under --json the stages of its making are said on standard error."""
    if (mirror is None) != (suite is None):
        raise ConfigError("--mirror and --suite belong together")
    board, source = Board(folder, port), (mirror, suite) if mirror and suite else None
    say = functools.partial(click.echo, err=as_json)
    stopped = False
    if action == "make":
        boards.make(board, say, source)
    elif action == "start":
        boards.start(board, say, source)
    elif action == STOP:
        stopped = boards.stop(board)
    elif action == "remove":
        boards.remove(board, packages)
    if as_json:
        return _document(board, action, stopped)
    if action == STOP:
        click.echo("stopped" if stopped else "it was not running")
    return _show(board, action)


def _document(board: Board, action: str, stopped: bool) -> Document:
    members = _board_json(board)
    if action == STOP:
        members["stopped"] = stopped
    return Document(_exit_status(action, members["state"] == RUNNING), members=members)


def _board_json(board: Board) -> dict[str, Any]:
    """The board's JSON members; those of a running board are null where it does not run."""
    process = boards.running(board)
    about: dict[str, Any] = dict.fromkeys(("process", "unit", "devices_file", "known_hosts"))
    if process:
        reached = dataclasses.replace(board, port=boards.running_port(board))
        files = {"devices_file": str(board.devices_file), "known_hosts": str(board.known_hosts)}
        about |= {"process": process.pid, "unit": reached.entry, **files}
    return {"folder": str(board.folder), "state": RUNNING if process else MADE if board.exists else ABSENT, **about}


def _exit_status(action: str, is_running: bool) -> int:
    return NOT_RUNNING if action == STATUS and not is_running else 0


def _show(board: Board, action: str) -> int:
    process = boards.running(board)
    if process is None:
        click.echo(f"{board.folder}: {'made, not running' if board.exists else 'no board'}")
        return _exit_status(action, is_running=False)
    port = boards.running_port(board)
    key, known = (shlex.quote(str(path)) for path in (board.key_file, board.known_hosts))
    click.echo(
        f"{board.folder}: running, process {process.pid}; entry for devices.yml, also in {board.devices_file}:\n"
    )
    click.echo(board.devices_file.read_text())
    click.echo(f"its host key: {known}; to log in:")
    click.echo(f"  ssh -i {key} -p {port} -o UserKnownHostsFile={known} {debian_root.USER}@{boards.ADDRESS}")
    return 0
