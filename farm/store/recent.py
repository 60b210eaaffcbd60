"""What goes on now, as the store knows it: runs that have not ended, latest nights, a unit's last rows, their ends."""

import dataclasses
import os
import signal
from typing import Any

from sqlalchemy import ColumnElement, exists, func, select

from farm.rows.run_info import RunInfo
from farm.store import schema
from farm.store.lines import FINISHED, RUNNING
from farm.store.process import is_own_host, is_process
from farm.store.rows import NIGHTLY
from farm.store.store import Store
from runtime.errors import ConfigError

SEARCHED_RUNS = 200


@dataclasses.dataclass(frozen=True)
class RunProgress:
    """A run that has not ended: how many rows it has, and its newest (unit, model, status and time; empty: none)."""

    run: RunInfo
    rows: int
    unit: str = ""
    model: str = ""
    status: str = ""
    time: str = ""


def runs_in_progress(store: Store) -> list[RunProgress]:
    """The runs that go on, newest first, of the newest `SEARCHED_RUNS`."""
    return [_progress(store, run) for run in store.runs(limit=SEARCHED_RUNS) if run.state == RUNNING]


def _progress(store: Store, run: RunInfo) -> RunProgress:
    table = schema.rows.c
    with store.reading() as connection:
        count = connection.execute(select(func.count()).where(table.run_id == run.id)).scalar_one()
        columns = select(table.unit, table.model, table.status, table.time)
        last = connection.execute(columns.where(table.run_id == run.id).order_by(table.id.desc()).limit(1)).first()
    return RunProgress(run, int(count), *(last or ()))


def latest_nights(store: Store) -> list[RunInfo]:
    """The newest finished nightly run of each name, the newest first."""
    return _nights(store, exists().where(schema.rows.c.run_id == schema.runs.c.id, schema.rows.c.job == NIGHTLY))


def latest_night_of_unit(store: Store, unit: str) -> RunInfo | None:
    """The newest finished nightly run that has rows of a unit."""
    table = schema.rows.c
    found = _nights(store, exists().where(table.run_id == schema.runs.c.id, table.job == NIGHTLY, table.unit == unit))
    return found[0] if found else None


def _nights(store: Store, has_rows: ColumnElement[bool]) -> list[RunInfo]:
    runs = schema.runs.c
    newest = select(func.max(runs.id)).where(runs.state == FINISHED, has_rows).group_by(runs.name)
    with store.reading() as connection:
        numbers = sorted(connection.execute(newest).scalars(), reverse=True)
    return [store.run(number) for number in numbers]


def last_rows_of_unit(store: Store, unit: str, limit: int) -> list[dict[str, Any]]:
    """The newest rows of a unit as plain data, newest first."""
    table = schema.rows.c
    query = select(table.row).where(table.unit == unit).order_by(table.id.desc()).limit(limit)
    with store.reading() as connection:
        return list(connection.execute(query).scalars())


def row_counts(store: Store) -> dict[tuple[str, str], int]:
    """(job, status) -> how many rows the store has of it."""
    table = schema.rows.c
    with store.reading() as connection:
        counted = connection.execute(select(table.job, table.status, func.count()).group_by(table.job, table.status))
        return {(job, status): int(count) for job, status, count in counted}


def interrupt_run(store: Store, run: int) -> None:
    """Ends a run as Ctrl-C would; ConfigError where its process is not one of this host, or has ended."""
    info = store.run(run)
    with store.reading() as connection:
        process = str(connection.execute(select(schema.runs.c.process).where(schema.runs.c.id == run)).scalar_one())
    if info.state != RUNNING:
        raise ConfigError(f"run {run}: has ended ({info.state})")
    if not is_own_host(process) or not is_process(process):
        raise ConfigError(f"run {run}: its process is not on this host; cancel it there")
    os.kill(int(process.split()[2]), signal.SIGINT)
