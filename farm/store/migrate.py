"""Brings a store to today's layout: a newer one is refused, an older one migrated after a backup, all or nothing."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from farm.safe_text import word
from farm.store.address import Address
from farm.store.damage import stamp
from farm.store.engine import reading, writing
from farm.store.schema import LAYOUT, VERSION_TABLE, metadata
from farm.store.series import derive_all_points
from runtime.errors import FormatError

MIGRATIONS = Path(__file__).parent / "migrations"
ADVISORY_LOCK = 0x6661726D  # `farm`: migrations of one PostgreSQL database take turns

Tell = Callable[[str], None]


def bring_up_to_date(engine: Engine, address: Address, tell: Tell) -> None:
    """Migrates an older store. Raises FormatError for a store of a newer farm, and for a database that is no store."""
    with reading(engine, address) as connection:
        if layout_of(connection, address) == LAYOUT:
            return
    with writing(engine, address) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        layout = layout_of(connection, address)  # another process may have been faster
        if layout == LAYOUT:
            return
        if layout:
            tell(f"{address}: layout {layout} becomes {LAYOUT}; backup: {_back_up(connection, address, layout)}")
        upgrade(connection)
        derive_all_points(connection)


def layout_of(connection: Connection, address: Address) -> int:
    """The layout of a store; 0 where there is none yet. Raises FormatError where this farm cannot work with it."""
    names = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in names:
        foreign = names if address.path else names & set(metadata.tables)
        if foreign:
            raise FormatError(f"{address}: no store of farm, but another database; name another with --store")
        return 0
    version = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if version is None:
        return 0
    if not version.isdecimal() or int(version) > LAYOUT:
        raise FormatError(
            f"{address}: store of layout {word(version)}, which a newer farm wrote; this farm reads up to {LAYOUT}: "
            "use the newer one, or name another store with --store"
        )
    return int(version)


def upgrade(connection: Connection, layout: int = LAYOUT) -> None:
    """Runs the migrations up to a layout in the connection's transaction."""
    from alembic import command  # a third of a second to import, seldom needed
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, str(layout))


def _back_up(connection: Connection, address: Address, layout: int) -> str:
    """Copies the store as it was before this transaction; returns the copy's name."""
    name = f"layout-{layout}-{stamp(time.time())}"
    return _copied_file(address.path, name) if address.path else _copied_schema(connection, layout)


def _copied_file(path: Path, name: str) -> str:
    copy = path.with_name(f"{path.name}.{name}")
    source_uri = f"{path.resolve().as_uri()}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(source_uri, uri=True)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
    return str(copy)


def _copied_schema(connection: Connection, layout: int) -> str:
    """A schema with a copy of every table; `DROP SCHEMA ... CASCADE` is the user's."""
    schema = f"farm_layout_{layout}_{stamp(time.time()).lower()}"
    connection.execute(text(f"CREATE SCHEMA {schema}"))
    for name in inspect(connection).get_table_names():
        if name in metadata.tables or name == VERSION_TABLE:
            connection.execute(text(f"CREATE TABLE {schema}.{name} AS TABLE {name}"))
    return f"schema {schema}"
