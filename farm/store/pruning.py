"""Makes room in a store: whole runs go, with their rows and points. Runs that have a name as a baseline stay."""

from __future__ import annotations

import dataclasses
import datetime

from sqlalchemy import Connection, delete, func, select

from farm.rows.run_info import RunInfo
from farm.store import schema
from farm.store.adding import RUNNING
from farm.store.engine import explained
from farm.store.store import Store
from runtime.errors import StoreError


@dataclasses.dataclass(frozen=True)
class Pruned:
    """How many runs and rows went."""

    runs: int
    rows: int


def prune(
    store: Store, before: datetime.datetime | None = None, keep_runs: int | None = None, dry_run: bool = False
) -> Pruned:
    """Deletes runs that began before a moment, and are not among the newest `keep_runs` of their name.

    Runs that go on, and baselines, stay. `dry_run`: only says how many would go.
    """
    going = [run.id for run in candidates(store.runs(), before, keep_runs) if run.id not in store.baselines().values()]
    with store.reading() as connection:
        rows = sum(_rows_of(connection, part) for part in _parts(going))
    if going and not dry_run:
        with store.writing() as connection:
            for part in _parts(going):
                connection.execute(delete(schema.runs).where(schema.runs.c.id.in_(part)))
            with_points = select(schema.points.c.series_id)
            connection.execute(delete(schema.series).where(schema.series.c.id.not_in(with_points)))
        _compact(store)
    return Pruned(len(going), rows)


def candidates(runs: list[RunInfo], before: datetime.datetime | None, keep_runs: int | None) -> list[RunInfo]:
    """Of runs, newest first, those that go."""
    seen: dict[str, int] = {}
    going = []
    for run in runs:
        seen[run.name] = seen.get(run.name, 0) + 1
        is_old = before is None or datetime.datetime.fromisoformat(run.started) < before
        if run.state != RUNNING and is_old and (keep_runs is None or seen[run.name] > keep_runs):
            going.append(run)
    return going


def _parts(ids: list[int], size: int = 500) -> list[list[int]]:
    """Databases limit the length of a statement."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _rows_of(connection: Connection, runs: list[int]) -> int:
    wanted = select(func.count()).select_from(schema.rows).where(schema.rows.c.run_id.in_(runs))
    return int(connection.execute(wanted).scalar_one())


def _compact(store: Store) -> None:
    """Gives the room back to the disk; PostgreSQL does so by itself, and a SQLite file that is in use keeps it."""
    if store.address.path:
        try:
            with explained(store.address):
                connection = store.engine.raw_connection()
                try:
                    connection.cursor().execute("VACUUM")
                finally:
                    connection.close()
        except StoreError:
            return
