"""Types of arguments that are paths: what cannot be read or written is said before the command does any work."""

import os
from pathlib import Path
from typing import Any

import click

EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
EXISTING_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


class NewFile(click.Path):
    """A file to write, in a folder that is there or can be made."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; a usage error where it is a folder, or its folder takes no files."""
        path = Path(value)
        if path.is_dir():
            self.fail(f"{path} is a folder", param, ctx)
        if reason := _unwritable(path.parent):
            self.fail(f"{path} cannot be written: {reason}", param, ctx)
        return path


class NewFolder(click.Path):
    """A folder to write into, which is there or can be made."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; a usage error where no files can be made there."""
        path = Path(value)
        if reason := _unwritable(path):
            self.fail(f"{path} cannot be written: {reason}", param, ctx)
        return path


NEW_FILE = NewFile(dir_okay=False)
NEW_FOLDER = NewFolder(file_okay=False)


def named_file(_context: click.Context, _option: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """The values of an option `[NAME=]FILE`; a usage error where there is no such file."""
    for word in words:
        _, separator, path = word.partition("=")
        if not (Path(word).exists() or (separator and Path(path).exists())):
            raise click.BadParameter(f"{path if separator else word} does not exist")
    return words


def _unwritable(folder: Path) -> str:
    """Why no files can be made in the folder, or in the nearest one above it that is there; empty: they can."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"{there} may not be written to"
