"""A command as a run of the store: what it was called with, at which commit, and where its rows go."""

import shlex

import click

from farm import safe_text
from farm.jobs.commit import working_commit
from farm.store import address
from farm.store.lines import RunData, new_run
from farm.store.recorder import NOWHERE, Recorder

OPTION = "--store"


def keeping(store: str | None) -> Recorder:
    """The command that is being called, as a run of the store; its rows go through `recorded` of what this returns."""
    return Recorder(store, own_run("" if store == NOWHERE else working_commit()), tell)


def own_run(commit: str) -> RunData:
    """The command that is being called, as a run that begins now."""
    return new_run(click.get_current_context().info_name or "", command_line(), commit)


def tell(line: str) -> None:
    """Says something beside the rows."""
    click.echo(safe_text.one_line(line), err=True)


def command_line() -> str:
    """What the user called, without a password."""
    context = click.get_current_context()
    arguments = context.find_root().obj or ()
    shown, secret = [], False
    for argument in map(str, arguments):
        name, is_joined, value = argument.partition("=")
        if secret:
            argument = address.without_password(argument)
        elif name == OPTION and is_joined:
            argument = f"{OPTION}={address.without_password(value)}"
        secret = argument == OPTION
        shown.append(argument)
    return shlex.join(["farm", *shown])
