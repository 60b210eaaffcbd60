"""Creates a SQLite store under a temporary name and links it to its own, so that no process sees an incomplete one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from farm import atomic_file
from farm.store.address import Address, sqlite_url
from farm.store.engine import sqlite_engine, translated_errors
from farm.store.journal_mode import journal_mode
from farm.store.layout import ensure_tables
from runtime.errors import StoreError


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
    try:
        os.link(new, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            new.rename(path)
