"""Makes the tables of a new store, in SQLite whole or not at all; refuses a store of another layout, and no store."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, select, text

from farm import atomic_file
from farm.safe_text import word
from farm.store.address import Address, sqlite_url
from farm.store.engine import reading, sqlite_engine, translated_errors, writing
from farm.store.schema import LAYOUT, layouts, metadata
from farm.store.sqlite_file import journal_mode, move_logs_aside
from runtime.errors import FormatError, StoreError

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


def create(path: Path) -> None:
    """Creates an empty store at a path, or leaves the one that another process has made there meanwhile.

    Raises StoreError where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=atomic_file.temporary_prefix(path)) as folder:
            new = Path(folder, path.name)
            new.touch()  # who may write it is said by the umask, while SQLite lets its owner alone
            _make(new, Address(sqlite_url(new), path))
            _publish(new, path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be made: {error.strerror or error}") from None


def _make(path: Path, address: Address) -> None:
    """Makes the tables in an empty file; errors name the store's own address."""
    engine = sqlite_engine(sqlite_url(path, "rwc"))
    try:
        with translated_errors(address), contextlib.closing(engine.raw_connection()) as connection:
            connection.cursor().execute(f"PRAGMA journal_mode = {journal_mode(path)}")
        ensure_tables(engine, address)
    finally:
        engine.dispose()


def _publish(new: Path, path: Path) -> None:
    """Gives the file its final name, unless a file of that name exists."""
    with _alone_in(path.parent):
        if path.exists():
            return
        move_logs_aside(path)
        try:
            os.link(new, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            new.rename(path)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Lets no other process make a store there meanwhile, and a log of it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a network file system, where no store has a log
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
