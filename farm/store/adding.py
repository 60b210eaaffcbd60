"""Inserts runs and rows into the tables, in the caller's transaction."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select

from farm.store import schema
from farm.store.lines import RunData
from farm.store.rows import NIGHTLY, nightly_row, row_columns
from farm.store.series import store_points
from farm.store.statements import insert_new


def number_of(connection: Connection, uid: str) -> int | None:
    """The number of the run with a uid; None where the store has none."""
    number: int | None = connection.execute(select(schema.runs.c.id).where(schema.runs.c.uid == uid)).scalar()
    return number


def add_run(connection: Connection, run: RunData) -> int:
    """Inserts a run; returns its number."""
    insert = schema.runs.insert().values(run.model_dump()).returning(schema.runs.c.id)
    number: int = connection.execute(insert).scalar_one()
    return number


def add_rows(connection: Connection, run: int, uid: str, rows: Iterable[dict[str, Any]]) -> int:
    """Inserts the rows that the run does not have yet, and their points; returns how many were new."""
    new = 0
    for data in rows:
        insert = insert_new(connection, schema.rows).values(row_columns(run, uid, data)).returning(schema.rows.c.id)
        is_new = connection.execute(insert).first() is not None
        new += is_new
        if is_new and data["job"] == NIGHTLY:
            store_points(connection, run, nightly_row(data))
    return new
