"""What `--json` prints: one document of one form for every command, failures included (docs/results.md)."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from runtime.errors import NO_ROOM, FarmError

if TYPE_CHECKING:
    from farm.rows.row import Row  # its import takes as long as that of all else here

SCHEMA_VERSION = 1
OPTION = "--json"
USAGE, SYSTEM, INTERRUPTION, FAILURE = "usage", "system", "interrupted", "failure"


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why a command ended before it was done: the line that stands on stderr, and the kind of mistake or failure."""

    message: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Document:
    """What a command returns under --json, in place of its exit status: its rows, and members of its own."""

    exit_status: int = 0
    rows: Sequence[Row] = ()
    members: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    problem: Problem | None = None

    @property
    def status(self) -> str:
        """`error`: the command ended early; `failed`: it is done, and something is not as it should be; else `ok`."""
        if self.problem:
            return "error"
        return "failed" if self.exit_status else "ok"

    def text(self, command: str) -> str:
        """The document as one line of JSON."""
        common = {
            "schema_version": SCHEMA_VERSION,
            "command": command,
            "status": self.status,
            "exit_status": self.exit_status,
            "error": dataclasses.asdict(self.problem) if self.problem else None,
            "rows": [row.model_dump(mode="json") for row in self.rows],
        }
        clash = set(common) & set(self.members)
        assert not clash, f"{command}: {clash} are members of every document"
        return json.dumps({**common, **self.members}, allow_nan=False)


CommandResult = int | Document | None  # what a command returns: its exit status (None: 0), or under --json a document


def is_wanted(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, also where it is too wrong to be parsed."""
    return OPTION in itertools.takewhile(lambda argument: argument != "--", arguments)


def kind_of(error: BaseException) -> str:
    """A word for an error, after its class in the tree of errors: `config`, `no_unit`, `device_lost` ..."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return "no_room"
    if not isinstance(error, FarmError):
        kinds = ((click.ClickException, USAGE), (OSError, SYSTEM))
        return next((kind for base, kind in kinds if isinstance(error, base)), INTERRUPTION)
    name = next(base.__name__ for base in type(error).__mro__ if base.__module__ == FarmError.__module__)
    if name == FarmError.__name__:
        return FAILURE
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Error")).lower()


def command_name(arguments: Sequence[str], commands: Mapping[str, str]) -> str:
    """The command that a command line names, with its groups: `run`, `store info`; empty where it names none."""
    name = next((argument for argument in arguments if argument in commands), "")
    command = importlib.import_module(commands[name]).command if commands.get(name) else None
    rest, names = arguments[list(arguments).index(name) + 1 :] if name else (), [name]
    for word in rest:
        if isinstance(command, click.Group) and word in command.list_commands(context := click.Context(command)):
            command = command.get_command(context, word)
            names.append(word)
    return " ".join(names)
