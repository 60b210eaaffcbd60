"""`farm store`: what is kept, and bringing it elsewhere."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import FAILED, store_options
from farm.rows.run_info import RunInfo
from farm.safe_text import word
from farm.store import Store, pruning, summary
from farm.store.exporting import Format, export_file, export_lines, export_tables
from farm.store.importing import Taken, take_file
from farm.store.summary import Summary
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError

STANDARD_OUTPUT = "-"
SHORT_COMMIT = 12
MAX_NUMBERS = 10
COLUMNS = ("Run", "Name", "Began", "Ended", "State", "Rows", "Commit", "Command")


def info(count: int, store: str | None, as_json: bool) -> None:
    """`farm store info`."""
    with Store.open(store, create=False) as opened:
        told, runs, rows = summary.summary(opened), opened.runs(limit=count), summary.rows_by_run(opened)
    if as_json:
        listed = [dataclasses.asdict(run) | {"rows": rows.get(run.id, 0)} for run in runs]
        click.echo(json.dumps({"store": dataclasses.asdict(told), "runs": listed}))
    else:
        table.show([_summary_table(told), _runs_table(runs, rows)])


def export(output: Path, kind: str, store: str | None) -> None:
    """`farm store export`."""
    with Store.open(store, create=False) as opened:
        if kind != Format.JSONL:
            for path in export_tables(opened, output, Format(kind)):
                click.echo(path)
        elif str(output) == STANDARD_OUTPUT:
            export_lines(opened, sys.stdout.buffer)
        else:
            export_file(opened, output)


def import_files(files: Sequence[Path], store: str | None) -> int:
    """`farm store import`; returns the exit status."""
    with Store.open(store, tell=store_options.tell) as opened:
        taken = [_taken(opened, path) for path in files]
    return FAILED if any(each.damaged for each in taken) else 0


def _taken(store: Store, path: Path) -> Taken:
    """Takes a file over, all of it or nothing, and says what came of it."""
    with store.writing() as connection:
        taken = take_file(connection, path)
    click.echo(_told(path, taken))
    return taken


def prune(before: datetime.datetime | None, keep: int | None, dry_run: bool, store: str | None) -> None:
    """`farm store prune`."""
    if before is None and keep is None:
        raise ConfigError("which runs? --before DATE, --keep N, or both")
    moment = before.replace(tzinfo=datetime.UTC) if before else None
    with Store.open(store, create=False) as opened:
        pruned = pruning.prune(opened, moment, keep, dry_run)
    click.echo(f"{'would delete' if dry_run else 'deleted'} {pruned.runs} runs with {pruned.rows} rows")


def _summary_table(told: Summary) -> Table:
    cells = [
        ("layout", str(told.layout)),
        ("size", table.size(told.size_bytes)),
        *((name, str(getattr(told, name))) for name in ("runs", "rows", "series", "points")),
        ("first run", told.first or "-"),
        ("last run", told.last or "-"),
    ]
    return Table(told.store, ("Member", "Value"), [list(pair) for pair in cells], frozenset({"Member", "Value"}))


def _runs_table(runs: Sequence[RunInfo], rows: dict[int, int]) -> Table:
    left = frozenset(COLUMNS) - {"Run", "Rows"}
    return Table("Runs", COLUMNS, [_cells(run, rows.get(run.id, 0)) for run in runs], left)


def _cells(run: RunInfo, rows: int) -> list[str]:
    times = (run.started.removesuffix("+00:00"), run.ended.removesuffix("+00:00") or "-")
    return [str(run.id), word(run.name), *times, run.state, str(rows), run.commit[:SHORT_COMMIT], word(run.command)]


def _told(path: Path, taken: Taken) -> str:
    line = f"{path}: {taken.runs} new runs, {taken.rows} new rows, {taken.known} rows that were there"
    if taken.damaged:
        numbers = ", ".join(map(str, taken.damaged[:MAX_NUMBERS])) + (
            ", ..." if len(taken.damaged) > MAX_NUMBERS else ""
        )
        line += f", {len(taken.damaged)} damaged lines passed over ({numbers})"
    return line
