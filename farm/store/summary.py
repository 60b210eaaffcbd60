"""Summarises a store: counts, size and time span."""

import dataclasses

from sqlalchemy import Connection, Table, func, select, text

from farm.store import schema
from farm.store.store import Store
from runtime.errors import FormatError

WHOLE = "ok"
MAX_PAGES_TOLD = 3


@dataclasses.dataclass(frozen=True)
class StoreSummary:
    """Counts of a store. `size_bytes` includes its log; `first` and `last` are the start times of its runs."""

    store: str
    layout: int
    size_bytes: int
    runs: int
    rows: int
    series: int
    points: int
    first: str
    last: str


def summary(store: Store) -> StoreSummary:
    """Counts everything in a store; raises FormatError where it is damaged."""
    with store.reading() as connection:
        _check(connection, store)
        started = select(schema.runs.c.started).order_by(schema.runs.c.id)
        return StoreSummary(
            store=str(store.address),
            layout=schema.LAYOUT,
            size_bytes=_size_bytes(connection, store),
            runs=_count(connection, schema.runs),
            rows=_count(connection, schema.rows),
            series=_count(connection, schema.series),
            points=_count(connection, schema.points),
            first=connection.execute(started.limit(1)).scalar() or "",
            last=connection.execute(started.order_by(None).order_by(schema.runs.c.id.desc()).limit(1)).scalar() or "",
        )


def rows_by_run(store: Store) -> dict[int, int]:
    """How many rows each run has."""
    run = schema.rows.c.run_id
    with store.reading() as connection:
        return dict(connection.execute(select(run, func.count()).group_by(run)).all())


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _check(connection: Connection, store: Store) -> None:
    """Checks the whole SQLite file: without this, SQLite finds damage only in the pages that it reads."""
    if store.address.path:
        problems = connection.execute(text(f"PRAGMA quick_check({MAX_PAGES_TOLD})")).scalars().all()
        if problems != [WHOLE]:
            raise FormatError(
                f"{store.address}: damaged ({'; '.join(problems)}); `farm store export` saves what it can"
            )


def _size_bytes(connection: Connection, store: Store) -> int:
    if store.address.path:
        path = store.address.path
        files = [path.with_name(path.name + suffix) for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())
    sizes = [f"pg_total_relation_size('{name}')" for name in schema.metadata.tables]
    return int(connection.execute(text(f"SELECT {' + '.join(sizes)}")).scalar_one())
