"""The entries of a tuned file by the variant that each launches, to pass over those that a unit's driver refuses.

farmrt itself goes back to the plan's launch where a tuned one does not build; a driver that crashes leaves no farmrt.
"""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path

from runtime.errors import FormatError
from runtime.kernels import table
from runtime.kernels.source import build_options
from runtime.kernels.spec import MemoryType
from runtime.plan.artifacts import TunedEntry, TunedSet, decode_tuned, encode_tuned
from runtime.types import PRECISIONS


def entries_of(tuned: Path | None, key: str) -> Iterator[TunedEntry]:
    """The entries that may be launched for a tuning key, whatever device they are for."""
    for each in _sets(tuned) if tuned and key else ():
        yield from (entry for entry in each.entries if entry.key == key)


def refused_name(entry: TunedEntry) -> str:
    """How `Target.refused` names the variant that an entry launches; empty where this farm knows none such."""
    with contextlib.suppress(KeyError, ValueError):  # of another farm
        name, memory, precision, _, defines, _ = entry.key.split("|")
        given = {key: int(value) for key, _, value in (each.partition("=") for each in defines.split(",") if each)}
        kernel, exact = table.find_kernel(name, MemoryType(memory)), PRECISIONS[precision]
        for variant in kernel.variants:
            if build_options(variant, exact, given) == entry.options:
                return kernel.refused_name(variant, exact)
    return ""


def without_refused(tuned: Path, refused: Collection[str], folder: Path) -> Path:
    """A file of the entries that are not refused, in a folder; the file itself where none is."""
    sets = _sets(tuned) if refused else []
    kept = [dataclasses.replace(each, entries=_kept(each, refused)) for each in sets]
    if kept == sets:
        return tuned
    written = folder / tuned.name
    written.write_bytes(encode_tuned(kept))
    return written


def _kept(tuned_set: TunedSet, refused: Collection[str]) -> tuple[TunedEntry, ...]:
    return tuple(entry for entry in tuned_set.entries if refused_name(entry) not in refused)


def _sets(tuned: Path) -> list[TunedSet]:
    """None of a damaged file, which farmrt refuses by name."""
    try:
        return decode_tuned(tuned.read_bytes(), str(tuned))
    except (FormatError, OSError):
        return []
