"""The command line that a command advises next: for the same model, on the same units."""

import shlex
from pathlib import Path

import click

from farm.config import samples

CARRIED = ("--device", "--soc", "--tag", "--shape", "--weights", "--runtime", "--device_yml", "--device-yml")


def next_command(command: str, *options: str, model: Path | None = None) -> str:
    """`farm COMMAND MODEL OPTIONS`; empty where the command that was called has no model file.

    `model` is a file that the command has made, and needs none of what was said of the given one.
    """
    if model:
        return shlex.join(["farm", command, str(model), *options])
    context = click.get_current_context()
    model_file = context.params.get("model_file")
    if not isinstance(model_file, Path):
        return ""
    named = f"{samples.SCHEME}{model_file.stem}" if model_file.parent == samples.FOLDER else str(model_file)
    named = f"./{named}" if named.startswith("-") else named
    return shlex.join(["farm", command, named, *_carried(context.find_root().obj or ()), *options])


def _carried(typed: tuple[str, ...]) -> list[str]:
    """Options that say which model and units, as they were typed."""
    carried: list[str] = []
    for index, word in enumerate(typed):
        name, is_joined, _ = word.partition("=")
        if name in CARRIED:
            carried += [word] if is_joined else typed[index : index + 2]
    return carried
