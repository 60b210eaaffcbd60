"""Imports reports/rows.jsonl, in which older versions kept rows, once, when the default store is created."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farm.store.address import DEFAULT_PATH, Address, sqlite_url
from farm.store.creation import create
from farm.store.engine import sqlite_engine, writing
from farm.store.importing import ImportResult, import_file

ROWS_FILE = DEFAULT_PATH.with_name("rows.jsonl")
IMPORTED = ROWS_FILE.with_name("rows.jsonl.imported")


def create_with_legacy_rows(path: Path, tell: Callable[[str], None]) -> None:
    """Creates a store; the default one begins with the complete rows of `ROWS_FILE`.

    Raises FormatError where another version wrote that file.
    """
    imports: list[ImportResult] = []

    def fill(new: Path) -> None:
        if path == DEFAULT_PATH and ROWS_FILE.exists():
            imports.append(_import_legacy_rows(new))

    if create(path, fill, tell) and imports:
        ROWS_FILE.rename(IMPORTED)
        damaged = f"; damaged lines passed over: {len(imports[0].damaged)}" if imports[0].damaged else ""
        tell(f"{path}: took over {imports[0].rows} rows from {ROWS_FILE}, which is {IMPORTED} now{damaged}")


def _import_legacy_rows(path: Path) -> ImportResult:
    address = Address(sqlite_url(path), path)
    engine = sqlite_engine(sqlite_url(path))
    try:
        with writing(engine, address) as connection:
            return import_file(connection, ROWS_FILE)
    finally:
        engine.dispose()
