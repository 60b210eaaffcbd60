"""Reads a user's source file, with the files that it includes by quotes in place: a unit has one text and no folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import ConfigError
from runtime.host.regular_file import open_regular

MAX_SIZE_BYTES = 1 << 20

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_source(path: Path) -> str:
    """The text of a source file; every file in it comes once, with `#line` so that compilers name the user's lines.

    Raises ConfigError where a file is missing, is no text, or is larger than source code ever is.
    """
    return "".join(_expanded(path, set()))


def _expanded(path: Path, seen: set[Path]) -> Iterator[str]:
    seen.add(path.resolve())
    yield f'#line 1 "{path.name}"\n'
    for number, line in enumerate(_text(path).splitlines(), 1):
        include = _INCLUDE.match(line)
        inner = path.parent / include[1] if include else None
        if inner is None or not inner.is_file():
            yield f"{line}\n"
            continue
        if inner.resolve() not in seen:
            yield from _expanded(inner, seen)
        yield f'#line {number + 1} "{path.name}"\n'


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            content = file.read(MAX_SIZE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_SIZE_BYTES or b"\0" in content:
        raise ConfigError(f"{path}: is no source code, or larger than {MAX_SIZE_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
