"""Connects to a store, and translates database errors into the project's own.

SQLite: write-ahead log, so that readers and a writer do not wait for each other (sqlite_file.py: not on network file
systems); a transaction that writes takes the lock at its beginning, and waits for it at most `LOCK_WAIT_S`.
"""

import contextlib
import contextvars
import sqlite3
import time
from collections.abc import Generator, Iterator
from typing import Any

import psutil
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, TimeoutError

from farm.safe_text import one_line
from farm.store.address import Address
from farm.store.rows import json_text
from farm.store.sqlite_file import SHARED, copy_aside, has_room, journal_mode
from runtime.errors import FarmError, FormatError, StoreError
from runtime.host import extras

LOCK_WAIT_S = 30.0
ANSWER_S = 60.0
CONNECT_S = 10
HURRIED_S = 2  # the least that libpq takes for a limit
MAX_WORD = 200
WRITES = "farm_writes"
POSTGRESQL_STORE = "A PostgreSQL store"
LOCK_NOT_AVAILABLE = "55P03"  # sqlstate, see PostgreSQL's appendix of error codes


_is_hurried = contextvars.ContextVar("is_hurried", default=False)


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Within it a server has `HURRIED_S` to answer, and as long to take a connection: somebody waits for the end."""
    token = _is_hurried.set(True)
    try:
        yield
    finally:
        _is_hurried.reset(token)


def _limit_s(usual_s: float) -> float:
    return min(usual_s, HURRIED_S) if _is_hurried.get() else usual_s


def sqlite_engine(url: URL, is_shared: bool = False) -> Engine:
    """An engine whose transactions are SQLite's own; a shared file, which other machines may write, loses its log."""
    engine = create_engine(url, connect_args={"timeout": LOCK_WAIT_S}, json_serializer=json_text)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 begins no transaction by itself
        connection.execute("PRAGMA foreign_keys = ON")
        if is_shared:
            with contextlib.suppress(sqlite3.OperationalError):  # who may only read, or while another uses the log
                connection.execute(f"PRAGMA journal_mode = {SHARED}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def postgresql_engine(url: URL) -> Engine:
    """An engine whose sessions wait as long for a lock as SQLite's, and for an answer at most `ANSWER_S`.

    Raises ConfigError where its driver is missing.
    """
    psycopg = extras.load(POSTGRESQL_STORE, "psycopg")
    engine = create_engine(
        url, connect_args={"application_name": "farm"}, json_serializer=json_text, pool_pre_ping=True
    )

    class _Connection(psycopg.Connection):  # type: ignore[name-defined, misc]
        """Ends where the server gives no answer: one that is frozen keeps its sockets open."""

        def wait(self, generator: Any, *arguments: Any, **options: Any) -> Any:
            return super().wait(self._answered(generator), *arguments, **options)

        def _answered(self, generator: Any) -> Generator[Any, Any, Any]:
            """The steps of a request, which psycopg takes ten times a second or oftener while there is no answer."""
            limit_s = _limit_s(ANSWER_S)
            end_s, ready = time.monotonic() + limit_s, None
            while True:
                try:
                    wanted = generator.send(ready)
                except StopIteration as done:
                    return done.value
                ready = yield wanted
                if not ready and time.monotonic() > end_s:
                    self.pgconn.finish()  # what it would still do, the server drops
                    raise psycopg.OperationalError(f"no answer for {limit_s:g} s; look whether the server is frozen")

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        return _Connection.connect(*arguments, **options | {"connect_timeout": _limit_s(CONNECT_S)})

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        limits_s = {"lock_timeout": LOCK_WAIT_S, "statement_timeout": ANSWER_S}
        connection.execute("; ".join(f"SET {name} = {round(limit_s * 1000)}" for name, limit_s in limits_s.items()))
        connection.commit()

    return engine


def engine_of(address: Address) -> Engine:
    """The engine of a store; nothing is opened yet."""
    if address.path:
        return sqlite_engine(address.engine_url, journal_mode(address.path) == SHARED)
    return postgresql_engine(address.engine_url)


@contextlib.contextmanager
def reading(engine: Engine, address: Address) -> Iterator[Connection]:
    """Opens a transaction that only reads."""
    with translated_errors(address), engine.connect() as connection:
        yield connection


@contextlib.contextmanager
def snapshot(engine: Engine, address: Address) -> Iterator[Connection]:
    """Opens a transaction that reads the store as it is now, whatever is written meanwhile (snapshot isolation)."""
    repeatable = engine if address.path else engine.execution_options(isolation_level="REPEATABLE READ")
    with reading(repeatable, address) as connection:
        yield connection


@contextlib.contextmanager
def writing(engine: Engine, address: Address) -> Iterator[Connection]:
    """Opens a transaction that writes all of its changes or none."""
    with translated_errors(address), engine.execution_options(**{WRITES: True}).begin() as connection:
        yield connection


@contextlib.contextmanager
def translated_errors(address: Address) -> Iterator[None]:
    """Translates database errors of a block into one line that says where, what, and what to do.

    Raises FormatError for a damaged file, which is copied aside, and StoreError for errors that waiting or freeing
    space may resolve.
    """
    try:
        yield
    except DBAPIError as error:
        raise _translated(address, error.orig) from None
    except _driver_error(address) as error:
        raise _translated(address, error) from None
    except UnicodeDecodeError as error:  # a text of a damaged file, or of SQLite's complaint about it
        if not address.path:
            raise
        raise _damaged(address, error) from None
    except TimeoutError:
        raise StoreError(f"{address}: too many threads of this process use the store at once") from None


def _driver_error(address: Address) -> type[Exception]:
    """Base of what the database's own package raises."""
    if address.path:
        return sqlite3.Error
    error: type[Exception] = extras.load(POSTGRESQL_STORE, "psycopg").Error
    return error


def _translated(address: Address, error: BaseException | None) -> FarmError:
    if isinstance(error, sqlite3.Error):
        return _of_sqlite(address, getattr(error, "sqlite_errorname", ""), error)
    return _of_postgresql(address, getattr(error, "sqlstate", None) or "", error)


def _of_sqlite(address: Address, name: str, error: sqlite3.Error) -> FarmError:
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return _damaged(address, error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreError(f"{address}: locked for {LOCK_WAIT_S:g} s by {_holders(address)}")
    assert address.path
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and not has_room(address.path):  # for its log
        name = "SQLITE_FULL"
    for prefix, (what, remedy) in _SQLITE.items():
        if name.startswith(prefix):
            return StoreError(f"{address}: {what}; {remedy}")
    return StoreError(f"{address}: {one_line(str(error))} ({name or 'sqlite3'})")


def _damaged(address: Address, error: Exception) -> FormatError:
    assert address.path
    return FormatError(f"{address}: damaged ({one_line(str(error))}); {copy_aside(address.path)}")


_SQLITE = {
    "SQLITE_FULL": ("cannot be written: the disk is full", "make room, then `farm store prune` makes more"),
    "SQLITE_READONLY": ("cannot be written: read-only", "look at the rights of the file and its folder"),
    "SQLITE_CANTOPEN": ("cannot be opened", "look at the rights of the file and its folder"),
    "SQLITE_IOERR": ("cannot be read or written: input/output error", "look at the disk"),
}


def _of_postgresql(address: Address, state: str, error: BaseException | None) -> FarmError:
    if state == LOCK_NOT_AVAILABLE:
        who = "another session; pg_stat_activity tells which"
        return StoreError(f"{address}: locked for {LOCK_WAIT_S:g} s by {who}")
    if state in _POSTGRESQL:
        return StoreError(f"{address}: {_POSTGRESQL[state]}")
    message = one_line(address.without_secrets(str(error).strip()))
    return StoreError(f"{address}: {message[:MAX_WORD]}{f' ({state})' if state else ''}")


_POSTGRESQL = {
    "57014": f"no answer for {ANSWER_S:g} s; look what else the server does",
    "53100": "cannot be written: the server's disk is full; make room, then `farm store prune` makes more",
    "25006": "cannot be written: the server is read-only",
    "42501": "the role may not do that; it must own the schema's tables or be allowed to make some",
}


def _holders(address: Address) -> str:
    """Names the other processes that have the file open, as far as this user may see them."""
    holders = [_process_text(process) for process in psutil.process_iter() if _has_open(process, address)]
    return ", ".join(holders) or "another process"


def _has_open(process: psutil.Process, address: Address) -> bool:
    assert address.path
    path = str(address.path.resolve())
    with contextlib.suppress(psutil.Error):
        return process.pid != psutil.Process().pid and any(file.path == path for file in process.open_files())
    return False


def _process_text(process: psutil.Process) -> str:
    command = ""
    with contextlib.suppress(psutil.Error):
        command = one_line(" ".join(process.cmdline()))[:MAX_WORD]
    return f"process {process.pid} ({command})" if command else f"process {process.pid}"
