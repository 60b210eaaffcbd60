"""Prunes a store: deletes whole runs with their rows and points. Runs that are a named baseline stay."""

from __future__ import annotations

import dataclasses
import datetime

from sqlalchemy import Connection, delete, func, select

from farm.rows.run_info import RunInfo
from farm.store import schema
from farm.store.engine import translated_errors
from farm.store.lines import RUNNING
from farm.store.store import Store
from runtime.errors import StoreError


@dataclasses.dataclass(frozen=True)
class PruneResult:
    """How many runs and rows were deleted."""

    runs: int
    rows: int


def prune_store(
    store: Store, before: datetime.datetime | None = None, keep_runs: int | None = None, dry_run: bool = False
) -> PruneResult:
    """Deletes runs that began before a moment, and are not among the newest `keep_runs` of their name.

    Runs that go on, and baselines, stay. `dry_run`: only says how many would go.
    """
    run_ids = [
        run.id for run in prunable_runs(store.runs(), before, keep_runs) if run.id not in store.baselines().values()
    ]
    with store.reading() as connection:
        rows = sum(_rows_of(connection, part) for part in _parts(run_ids))
    if run_ids and not dry_run:
        with store.writing() as connection:
            for part in _parts(run_ids):
                connection.execute(delete(schema.runs).where(schema.runs.c.id.in_(part)))
            with_points = select(schema.points.c.series_id)
            connection.execute(delete(schema.series).where(schema.series.c.id.not_in(with_points)))
        _compact(store)
    return PruneResult(len(run_ids), rows)


def prunable_runs(runs: list[RunInfo], before: datetime.datetime | None, keep_runs: int | None) -> list[RunInfo]:
    """Selects the runs to delete; `runs` are newest first."""
    newer_runs: dict[str, int] = {}
    prunable = []
    for run in runs:
        newer_runs[run.name] = newer_runs.get(run.name, 0) + 1
        is_old = before is None or datetime.datetime.fromisoformat(run.started) < before
        if run.state != RUNNING and is_old and (keep_runs is None or newer_runs[run.name] > keep_runs):
            prunable.append(run)
    return prunable


def _parts(ids: list[int], size: int = 500) -> list[list[int]]:
    """Databases limit the length of a statement."""
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _rows_of(connection: Connection, runs: list[int]) -> int:
    query = select(func.count()).select_from(schema.rows).where(schema.rows.c.run_id.in_(runs))
    return int(connection.execute(query).scalar_one())


def _compact(store: Store) -> None:
    """Shrinks a SQLite file, unless it is in use; PostgreSQL reclaims space by itself."""
    if store.address.path:
        try:
            with translated_errors(store.address):
                connection = store.engine.raw_connection()
                try:
                    connection.cursor().execute("VACUUM")
                finally:
                    connection.close()
        except StoreError:
            return
