"""The help texts of all commands, as snapshots: a change of the command line shows in the diff.

After a wanted change renew them with `make snapshots`, and read the diff.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from farm import cli

FOLDER = Path(__file__).parent / "snapshots"
WIDTH = 100


def commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    """Contexts of a command and of all below it."""
    context = click.Context(command, parent=parent, info_name=name, terminal_width=WIDTH, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child
            yield from commands(child, context, child_name)


def test_help_texts_are_those_of_the_snapshots() -> None:
    contexts = commands(cli.farm, None, "farm")
    current = {context.command_path.replace(" ", "-"): f"{context.get_help()}\n" for context in contexts}
    if os.environ.get("FARM_RENEW_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        for path in FOLDER.glob("*.txt"):
            path.unlink()
        for name, text in current.items():
            (FOLDER / f"{name}.txt").write_text(text)
    assert {path.stem: path.read_text() for path in FOLDER.glob("*.txt")} == current, "renew with `make snapshots`"


def test_every_command_and_option_has_help() -> None:
    for context in commands(cli.farm, None, "farm"):
        assert context.command.help, context.command_path
        for parameter in context.command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (
                f"{context.command_path}: {parameter.name}"
            )
