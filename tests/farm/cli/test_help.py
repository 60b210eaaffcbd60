"""The command line as one page: a change of a command, an argument, an option or a default shows in the diff.

After a wanted change renew `interface.txt` with `make snapshots`, and read the diff.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from farm import cli

INTERFACE = Path(__file__).parent / "interface.txt"
WIDTH = 120


def commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    """Contexts of a command and of all below it."""
    context = click.Context(command, parent=parent, info_name=name, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child
            yield from commands(child, context, child_name)


CONTEXTS = list(commands(cli.farm, None, "farm"))


def options(context: click.Context) -> Iterator[str]:
    """Each as help shows it, with its default and range; `...` where it may be repeated: `--tag TAG...`."""
    for parameter in context.command.params:
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            names, text = record
            limits = text.removeprefix(parameter.help or "").strip()
            yield f"{names}{'...' * parameter.multiple} {limits}".strip()


def test_the_command_line_is_that_of_the_page() -> None:
    current = ""
    for context in CONTEXTS:
        usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
        listed = textwrap.wrap(" · ".join(options(context)), WIDTH - 2, break_on_hyphens=False)
        current += textwrap.indent("\n".join([usage, *listed]), "  ").lstrip() + "\n"
    if os.environ.get("FARM_RENEW_SNAPSHOTS"):
        INTERFACE.write_text(current)
    assert INTERFACE.read_text() == current, "renew with `make snapshots`"


def test_every_command_and_option_has_help() -> None:
    for context in CONTEXTS:
        assert context.command.help, context.command_path
        for parameter in context.command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (
                f"{context.command_path}: {parameter.name}"
            )
