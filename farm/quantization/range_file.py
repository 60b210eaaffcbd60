"""Ranges of tensors as MACE writes them (`quantize_range_file`): a line `NAME@@LOWEST,HIGHEST` for each tensor."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from farm import atomic_file
from farm.quantization.methods import Range, with_zero
from runtime.errors import ConfigError

MARK = "@@"
LINE = f"NAME{MARK}LOWEST,HIGHEST"
NAMED = 5


def write(path: Path, ranges: Mapping[str, Range]) -> None:
    """Writes the ranges of tensors by name, in digits that read back as they are."""
    lines = (f"{name}{MARK}{low:.9g},{high:.9g}\n" for name, (low, high) in ranges.items())
    atomic_file.write(path, "".join(lines).encode())


def read(path: Path) -> dict[str, Range]:
    """The ranges of a file, by the tensors' names; 0 is in each.

    Raises ConfigError where it cannot be read, or a line is no range.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    return dict(_parsed(path, number, line) for number, line in enumerate(lines, 1) if line.strip())


def _parsed(path: Path, number: int, line: str) -> tuple[str, Range]:
    name, _, ends = line.rpartition(MARK)
    try:
        low, high = (float(each) for each in ends.split(","))
    except ValueError:
        low, high = math.nan, math.nan
    if not name or not (math.isfinite(low) and math.isfinite(high)):
        raise ConfigError(f"{path}:{number}: {LINE} is expected, not {line.strip()[:80]!r}")
    if low > high:
        raise ConfigError(f"{path}:{number}: the range of {name!r} ends below its beginning, {low:g} to {high:g}")
    return name, with_zero((low, high))


def require_all(path: Path, ranges: Mapping[str, Range], tensors: Iterable[str]) -> None:
    """Raises ConfigError where tensors that are quantised have no range in a file."""
    if missing := [name for name in tensors if name not in ranges]:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        names = ", ".join(map(repr, missing[:NAMED]))
        raise ConfigError(f"{path}: no range of {names}{more}; add them, or let --data DIR find all ranges")
