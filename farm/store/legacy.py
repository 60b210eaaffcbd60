"""reports/rows.jsonl, in which older versions kept rows: taken over once, when the store is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farm.store.address import DEFAULT_PATH, Address, sqlite_url
from farm.store.creation import create
from farm.store.engine import sqlite_engine, writing
from farm.store.importing import Taken, take_file

ROWS_FILE = DEFAULT_PATH.with_name("rows.jsonl")
IMPORTED = ROWS_FILE.with_name("rows.jsonl.imported")


def made(path: Path, tell: Callable[[str], None]) -> None:
    """Makes a store; the default one begins with the rows of `ROWS_FILE`, except those that a killed writer left half.

    Raises FormatError where another version wrote that file.
    """
    taken: list[Taken] = []

    def fill(new: Path) -> None:
        if path == DEFAULT_PATH and ROWS_FILE.exists():
            taken.append(_fill(new))

    if create(path, fill, tell) and taken:
        ROWS_FILE.rename(IMPORTED)
        damaged = f"; damaged lines passed over: {len(taken[0].damaged)}" if taken[0].damaged else ""
        tell(f"{path}: took over {taken[0].rows} rows from {ROWS_FILE}, which is {IMPORTED} now{damaged}")


def _fill(path: Path) -> Taken:
    address = Address(sqlite_url(path), path)
    engine = sqlite_engine(sqlite_url(path))
    try:
        with writing(engine, address) as connection:
            return take_file(connection, ROWS_FILE)
    finally:
        engine.dispose()
