"""SQL that the two databases spell differently."""

import importlib
from typing import Any

from sqlalchemy import Connection, Table


def insert_new(connection: Connection, table: Table) -> Any:
    """An insert that skips rows whose key exists."""
    return _insert(connection, table).on_conflict_do_nothing()


def insert_or_replace(connection: Connection, table: Table, key: str, **values: Any) -> Any:
    """An insert that replaces the row with the same key (upsert)."""
    return _insert(connection, table).values(values).on_conflict_do_update(index_elements=[key], set_=values)


def _insert(connection: Connection, table: Table) -> Any:
    # Only the one that is spoken: SQLAlchemy imports neither with itself.
    return importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
