"""Makes the tables of a new store. A store of another layout, and a database that is no store, are refused."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, inspect, select, text

from farm.safe_text import word
from farm.store.address import Address
from farm.store.engine import reading, writing
from farm.store.schema import LAYOUT, layouts, metadata
from runtime.errors import FormatError

ADVISORY_LOCK = 0x6661726D  # `farm`: processes that make the tables of one PostgreSQL database take turns


def ensure_tables(engine: Engine, address: Address) -> None:
    """Makes the tables where there are none. Raises FormatError for another layout, and where this is no store."""
    with reading(engine, address) as connection:
        if _has_tables(connection, address):
            return
    with writing(engine, address) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        if not _has_tables(connection, address):  # another process may have been faster
            metadata.create_all(connection, checkfirst=False)
            connection.execute(layouts.insert().values(version_num=str(LAYOUT)))


def _has_tables(connection: Connection, address: Address) -> bool:
    """Whether the database has the tables of today's layout; raises FormatError where it has others."""
    names = set(inspect(connection).get_table_names())
    if layouts.name not in names:
        if names if address.path else names & set(metadata.tables):
            raise FormatError(f"{address}: no store of farm, but another database; name another with --store")
        return False
    version = str(connection.execute(select(layouts.c.version_num)).scalar())
    if version != str(LAYOUT):
        raise FormatError(f"{address}: {_refusal(version)}, or name another store with --store")
    return True


def _refusal(version: str) -> str:
    """What is said of a store of another layout: which it is, who wrote it, and how its rows come into a store here."""
    is_older = version.isdecimal() and int(version) < LAYOUT
    remedy = "`farm store export FILE` there, `farm store import FILE` here into a new store" if is_older else "use it"
    return (
        f"store of layout {word(version)}, which {'an older' if is_older else 'a newer'} farm wrote; "
        f"this farm reads layout {LAYOUT}: {remedy}"
    )
