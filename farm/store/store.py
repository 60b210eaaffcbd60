"""The store: every run and row of farm, in SQLite or PostgreSQL. docs/store.md describes its tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, delete, select, update

from farm.rows.nightly import NightlyRow
from farm.rows.packed_points import PackedPoints
from farm.rows.row import Row
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Point, SeriesKey, case_of
from farm.safe_text import one_line
from farm.store import address as addresses
from farm.store import schema
from farm.store.adding import add_rows, add_run, number_of
from farm.store.address import Address
from farm.store.engine import engine_of, reading, sqlite_engine, writing
from farm.store.layout import create as create_store
from farm.store.layout import ensure_tables
from farm.store.lines import FINISHED, INTERRUPTED, RUNNING, RunData, new_run, now
from farm.store.process import host_of, is_gone, own_process
from farm.store.rows import NIGHTLY, column_text, json_value, nightly_row, row_data
from farm.store.series import each_series, night_commits
from farm.store.sqlite_file import identity, is_still
from farm.store.statements import insert_or_replace
from runtime.errors import ConfigError, FormatError, StoreError

STREAMED = 200  # rows fetched at a time


class Store:
    """An open store. Several threads and processes may use one at the same time.

    Every method raises StoreError where the store cannot be used now, and FormatError where it is damaged.
    """

    def __init__(self, address: Address, engine: Engine) -> None:
        self.address = address
        self.engine = engine
        self._file = address.path and identity(address.path)

    @classmethod
    def open(cls, url: str | None = None, *, create: bool = True) -> Store:
        """Opens a store, and makes it where there is none.

        Args:
            url: a path, `sqlite:///PATH` or `postgresql://...`; None: reports/farm.db.
            create: where False, a SQLite file that is missing is a ConfigError.

        Raises:
            ConfigError: the URL is none.
            FormatError: the store is damaged, or has another layout than this farm's.
            StoreError: it is locked, out of reach, or cannot be made.
        """
        address = addresses.parse_address(url)
        if address.path:
            try:
                _find(address.path, create)
            except PermissionError as error:
                raise StoreError(f"{address.path}: cannot be opened: {error.strerror}") from None
        store = cls(address, engine_of(address))
        try:
            ensure_tables(store.engine, address)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open_to_read(cls, url: str | None = None) -> Store:
        """Opens a store that is there, to be read and soon closed: also one whose disk has no room for its index."""
        try:
            return cls.open(url, create=False)
        except StoreError:
            address = addresses.parse_address(url)
            if not address.path or not is_still(address.path):
                raise
        return cls(address, sqlite_engine(addresses.read_only_url(address.path)))

    @classmethod
    def in_memory(cls) -> Store:
        """An empty store of this thread, which is gone when it is closed."""
        url = URL.create(addresses.SQLITE)
        store = cls(Address(url, Path("memory")), sqlite_engine(url))
        ensure_tables(store.engine, store.address)
        return store

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()

    @property
    def is_gone(self) -> bool:
        """Whether its file was deleted, or another took its name: what is written now is gone when this is closed."""
        path = self.address.path
        return path is not None and self._file is not None and identity(path) != self._file

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Runs

    def begin(self, name: str, command: str, commit: str = "") -> int:
        """Begins a run of this process; returns its number, higher than all before it."""
        return self.begin_run(new_run(name, command, commit))

    def begin_run(self, run: RunData) -> int:
        """Begins a run that has been described already; the number of the one that is there, where it has its uid."""
        with self.writing() as connection:
            number = number_of(connection, run.uid)
            return add_run(connection, run) if number is None else number

    def end(self, run: int, state: str = FINISHED) -> None:
        """Ends a run as `finished` or `interrupted`; `running`: it goes on, in this process."""
        goes_on = state == RUNNING
        values = {"state": state, "ended": "" if goes_on else now()}
        if goes_on:
            values["process"] = own_process()
        with self.writing() as connection:
            _uid(connection, self.address, run)
            connection.execute(update(schema.runs).where(schema.runs.c.id == run).values(values))

    def run(self, run: int) -> RunInfo:
        """What is known of a run; raises ConfigError where there is none."""
        with self.reading() as connection:
            _uid(connection, self.address, run)
            return _info(connection.execute(select(schema.runs).where(schema.runs.c.id == run)).one())

    def run_data(self, run: int) -> RunData:
        """A run as it is told from all others wherever it is kept."""
        with self.reading() as connection:
            return RunData.of(connection.execute(select(schema.runs).where(schema.runs.c.id == run)).mappings().one())

    def runs(self, name: str | None = None, limit: int | None = None) -> list[RunInfo]:
        """Runs, newest first."""
        query = select(schema.runs).order_by(schema.runs.c.id.desc())
        if name is not None:
            query = query.where(schema.runs.c.name == column_text(name))
        with self.reading() as connection:
            return [_info(record) for record in connection.execute(query.limit(limit))]

    # Rows

    def add(self, run: int, rows: Sequence[Row]) -> None:
        """Keeps rows, all or none; one that the run has already is passed over."""
        with self.writing() as connection:
            add_rows(connection, run, _uid(connection, self.address, run), [row_data(row) for row in rows])

    def rows(
        self,
        run: int | None = None,
        job: str | None = None,
        unit: str | None = None,
        model: str | None = None,
        since: datetime.datetime | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Rows as plain data, oldest first, of those that fit."""
        table = schema.rows.c
        query = select(table.row).order_by(table.run_id, table.id)
        for column, value in ((table.job, job), (table.unit, unit), (table.model, model)):
            if value is not None:
                query = query.where(column == column_text(value))
        if run is not None:
            query = query.where(table.run_id == run)
        if since is not None:
            query = query.where(table.time >= since.astimezone(datetime.UTC).isoformat())
        with self.reading() as connection:
            yield from connection.execution_options(yield_per=STREAMED).execute(query).scalars()

    def nightly_rows(self, run: int) -> list[NightlyRow]:
        """The rows of a nightly run; of a case that was measured again, the last."""
        last_rows: dict[Case, NightlyRow] = {}
        for row in map(nightly_row, self.rows(run, NIGHTLY)):
            last_rows[case_of(row)] = row
        return list(last_rows.values())

    def nightly_row(self, run: int, case: Case) -> NightlyRow | None:
        """The last row of a case in a nightly run; None where it has none."""
        found = list(self.rows(run, NIGHTLY, case.unit, case.model))
        return next((row for row in map(nightly_row, reversed(found)) if case_of(row) == case), None)

    def series(
        self, until: int | None = None, nights: int = 400, name: str | None = None
    ) -> dict[SeriesKey, list[Point]]:
        """The points of the last `nights` nightly runs up to one, oldest run first; `name`: only runs of this name."""
        return {key: list(points) for key, points in self.each_series(until, nights, name)}

    def each_series(
        self, until: int | None = None, nights: int = 400, name: str | None = None
    ) -> Iterator[tuple[SeriesKey, PackedPoints]]:
        """As `series`, one after the other, for more series than memory holds."""
        with self.reading() as connection:
            yield from each_series(connection, until, nights, column_text(name) if name is not None else None)

    def nights(self, until: int, nights: int, name: str) -> list[int]:
        """The last so many runs of a name up to one that have points, newest first."""
        with self.reading() as connection:
            return list(night_commits(connection, until, nights, column_text(name)))

    def points(self, keys: Sequence[SeriesKey], until: int, nights: int, name: str) -> dict[SeriesKey, list[Point]]:
        """As `series`, of these alone."""
        with self.reading() as connection:
            found = each_series(connection, until, nights, column_text(name), keys)
            return {key: list(points) for key, points in found}

    # Progress of a run that may be killed

    def note_progress(self, run: int, key: str, data: dict[str, Any]) -> None:
        """Notes what a run must know to go on; there may be several notes under a key."""
        with self.writing() as connection:
            connection.execute(schema.progress.insert().values(run_id=run, key=one_line(key), data=json_value(data)))

    def progress(self, run: int) -> list[tuple[str, dict[str, Any]]]:
        """All notes of a run, oldest first."""
        table = schema.progress.c
        with self.reading() as connection:
            notes = connection.execute(select(table.key, table.data).where(table.run_id == run).order_by(table.id))
            return [(key, data) for key, data in notes]

    # Baselines

    def set_baseline(self, name: str, run: int) -> None:
        """Gives a run a name, which another may have had, to compare with; raises ConfigError where there is none."""
        with self.writing() as connection:
            _uid(connection, self.address, run)
            connection.execute(
                insert_or_replace(connection, schema.baselines, "name", name=column_text(name), run_id=run)
            )

    def baselines(self) -> dict[str, int]:
        """All names, each with its run."""
        table = schema.baselines.c
        with self.reading() as connection:
            names = connection.execute(select(table.name, table.run_id).order_by(table.name))
            return dict(names.all())

    def drop_baseline(self, name: str) -> None:
        """Takes a name back; raises ConfigError where there is none."""
        with self.writing() as connection:
            table = schema.baselines
            if not connection.execute(delete(table).where(table.c.name == column_text(name))).rowcount:
                raise ConfigError(f"baseline {column_text(name)}: {self.address} has none of this name")

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction that reads; its errors are one line."""
        return reading(self.engine, self.address)

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that writes, all or nothing; its errors are one line."""
        return writing(self.engine, self.address)


def _find(path: Path, create: bool) -> None:
    """Makes a store where there is none. A store is never empty: that it is comes from a crash, or from another."""
    if not path.exists():
        if not create:
            raise ConfigError(f"{path}: no store there; any command that measures makes one")
        create_store(path)
    elif path.is_file() and not path.stat().st_size:
        raise FormatError(f"{path}: damaged (an empty file); delete it to begin a new store")


def _uid(connection: Connection, address: Address, run: int) -> str:
    uid = connection.execute(select(schema.runs.c.uid).where(schema.runs.c.id == run)).scalar()
    if uid is None:
        raise ConfigError(f"run {run}: not in {address}; `farm store info` lists the runs")
    return str(uid)


def _info(run: Any) -> RunInfo:
    killed = run.state == RUNNING and is_gone(run.process)
    return RunInfo(
        id=run.id,
        name=run.name,
        command=run.command,
        started=run.started,
        ended=run.ended,
        state=INTERRUPTED if killed else run.state,
        commit=run.commit,
        versions=run.versions,
        host=host_of(run.process),
    )
