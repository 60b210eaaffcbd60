"""A group whose commands are imported one by one, so that `farm doctor` does not wait for what it does not use."""

import importlib
from collections.abc import Mapping
from typing import Any

import click

from farm.config.suggestion import suggestion


class LazyGroup(click.Group):
    """`modules` is name -> module that has a click command named `command`; help lists them in this order."""

    def __init__(self, *arguments: Any, modules: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of one command."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = importlib.import_module(self._modules[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command, or says which one may be meant."""
        if args[0] not in self._modules and not args[0].startswith("-"):
            ctx.fail(f"unknown command {args[0]!r}{suggestion(args[0], self._modules)}")
        return super().resolve_command(ctx, args)
