"""reports/rows.jsonl, in which older versions kept rows: taken over once, when the store is made."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from farm.store import schema
from farm.store.address import DEFAULT_PATH, Address, sqlite_url
from farm.store.engine import sqlite_engine, writing
from farm.store.rows import check, columns, plain
from farm.store.statements import insert_new
from runtime.errors import FormatError

ROWS_FILE = DEFAULT_PATH.with_name("rows.jsonl")
IMPORTED = ROWS_FILE.with_name("rows.jsonl.imported")

Create = Callable[[Path, Callable[[Path], None], Callable[[str], None]], bool]


def created(path: Path, create: Create, tell: Callable[[str], None]) -> None:
    """Makes a store; the default one begins with the rows of `ROWS_FILE`."""
    rows = list(_rows(ROWS_FILE)) if path == DEFAULT_PATH and ROWS_FILE.exists() else []
    if create(path, lambda new: _fill(new, rows), tell) and rows:
        ROWS_FILE.rename(IMPORTED)
        tell(f"{path}: took over {len(rows)} rows from {ROWS_FILE}, which is {IMPORTED} now")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows; a line that a killed writer left half is passed over. Raises FormatError for another version's."""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        with contextlib.suppress(ValueError):
            data = json.loads(line)
            if isinstance(data, dict):
                try:
                    check(data)
                except FormatError as error:
                    raise FormatError(f"{path}:{number}: {error}; move the file away") from None
                yield plain(data)


def _fill(path: Path, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    uid = uuid.uuid4().hex
    times = [str(row["time"]) for row in rows]
    run = {
        "uid": uid,
        "name": ROWS_FILE.name,
        "command": f"rows of {ROWS_FILE}",
        "started": times[0],
        "ended": times[-1],
        "state": "finished",
        "commit": "",
        "versions": {},
        "process": "",
    }
    engine = sqlite_engine(sqlite_url(path))
    try:
        with writing(engine, Address(sqlite_url(path), path)) as connection:
            number = connection.execute(schema.runs.insert().values(run).returning(schema.runs.c.id)).scalar_one()
            for row in rows:
                connection.execute(insert_new(connection, schema.rows), columns(number, uid, row))
    finally:
        engine.dispose()
