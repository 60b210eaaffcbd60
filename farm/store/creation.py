"""Creates a SQLite store under a temporary name and links it to its own, so that no process sees an incomplete one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from farm import atomic_file
from farm.store.address import Address, sqlite_url
from farm.store.engine import sqlite_engine
from farm.store.migrate import bring_up_to_date
from runtime.errors import StoreError


def create(path: Path, fill: Callable[[Path], None], tell: Callable[[str], None]) -> bool:
    """Creates a store at a path; `fill` writes its first content. False where another process was faster.

    Raises StoreError where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=atomic_file.temporary_prefix(path)) as folder:
            new = Path(folder, path.name)
            new.touch()  # who may write it is said by the umask, while SQLite lets its owner alone
            _make(new, tell)
            fill(new)
            return _published(new, path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be made: {error.strerror or error}") from None


def _make(path: Path, tell: Callable[[str], None]) -> None:
    address = Address(sqlite_url(path), path)
    engine = sqlite_engine(sqlite_url(path, "rwc"))
    try:
        with contextlib.closing(engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
        bring_up_to_date(engine, address, tell)
    finally:
        engine.dispose()


def _published(new: Path, path: Path) -> bool:
    """Gives the file its final name; False where a file of that name exists."""
    try:
        os.link(new, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        new.rename(path)
    return True
