"""What a store holds, in figures."""

from __future__ import annotations

import dataclasses

from sqlalchemy import Connection, Table, func, select, text

from farm.store import schema
from farm.store.store import Store
from runtime.errors import FormatError

WHOLE = "ok"
MAX_PAGES_TOLD = 3


@dataclasses.dataclass(frozen=True)
class Summary:
    """`size_bytes` is what it takes of the disk, with its log; `first` and `last` are when its runs began."""

    store: str
    layout: int
    size_bytes: int
    runs: int
    rows: int
    series: int
    points: int
    first: str
    last: str


def summary(store: Store) -> Summary:
    """Counts all; raises FormatError where the store is damaged."""
    with store.reading() as connection:
        _check(connection, store)
        started = select(schema.runs.c.started).order_by(schema.runs.c.id)
        return Summary(
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
    """SQLite finds damage only where it reads, unless it is asked."""
    if store.address.path:
        told = connection.execute(text(f"PRAGMA quick_check({MAX_PAGES_TOLD})")).scalars().all()
        if told != [WHOLE]:
            raise FormatError(f"{store.address}: damaged ({'; '.join(told)}); `farm store export` saves what it can")


def _size_bytes(connection: Connection, store: Store) -> int:
    if store.address.path:
        path = store.address.path
        files = [path.with_name(path.name + suffix) for suffix in ("", "-wal")]
        return sum(file.stat().st_size for file in files if file.exists())
    sizes = [f"pg_total_relation_size('{name}')" for name in schema.metadata.tables]
    return int(connection.execute(text(f"SELECT {' + '.join(sizes)}")).scalar_one())
