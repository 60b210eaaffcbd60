"""Writes a store into files: JSON lines, or flat tables as CSV or Parquet in a folder. Files appear whole."""

from __future__ import annotations

import csv
import enum
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Connection, select

from farm import atomic_file
from farm.store import schema
from farm.store.engine import snapshot
from farm.store.flat import COLUMNS, Cell, Columns, Lines, flat_tables
from farm.store.lines import FORMAT, ExportHeader, RunData, RunLine, encoded_line
from farm.store.rows import json_text
from farm.store.store import STREAMED, Store
from runtime.host import extras

FORMULA_SIGNS = ("=", "+", "-", "@")
GROUP = 5000  # lines of a row group of Parquet


class ExportFormat(enum.StrEnum):
    """How a store is written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def export_lines(store: Store, file: BinaryIO) -> None:
    """Writes the whole store as JSON lines."""
    with snapshot(store.engine, store.address) as connection:
        file.writelines(_lines(connection))


def export_file(store: Store, path: Path) -> None:
    """Writes the whole store as one file of JSON lines."""
    with atomic_file.replacing(path) as file:
        export_lines(store, file)


def export_tables(store: Store, folder: Path, kind: ExportFormat) -> list[Path]:
    """Writes a file a table into a folder; returns their paths. Raises ConfigError where Parquet cannot be written."""
    write = _write_parquet if kind == ExportFormat.PARQUET else _write_csv
    if kind == ExportFormat.PARQUET:
        _pyarrow()
    paths = []
    with snapshot(store.engine, store.address) as connection:
        for name, lines in _tables(connection):
            path = folder / f"{name}.{kind}"
            with atomic_file.replacing(path) as file:
                write(file, COLUMNS[name], lines)
            paths.append(path)
    return paths


def _lines(connection: Connection) -> Iterator[bytes]:
    yield encoded_line(ExportHeader(farm_store=FORMAT))
    runs = connection.execute(select(schema.runs).order_by(schema.runs.c.id)).mappings().all()
    uids = {run["id"]: run["uid"] for run in runs}
    rows, notes, names = schema.rows.c, schema.progress.c, schema.baselines.c
    streaming = connection.execution_options(yield_per=STREAMED)
    for run in runs:
        of = {"of": run["uid"]}
        yield encoded_line(RunLine(run=RunData.of(run)))
        for row in streaming.execute(select(rows.row).where(rows.run_id == run["id"]).order_by(rows.id)).scalars():
            yield _line(of | {"row": row})
        run_notes = select(notes.key, notes.data).where(notes.run_id == run["id"]).order_by(notes.id)
        for key, data in connection.execute(run_notes).all():
            yield _line(of | {"key": key, "progress": data})
    for name, number in connection.execute(select(names.name, names.run_id).order_by(names.name)).all():
        yield _line({"of": uids[number], "baseline": name})


def _line(data: dict[str, Any]) -> bytes:
    return f"{json_text(data)}\n".encode()


def _tables(connection: Connection) -> Iterator[tuple[str, Lines]]:
    return flat_tables(connection, STREAMED)


def _write_csv(file: BinaryIO, columns: Columns, lines: Lines) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, list(columns))
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in line.items()} for line in lines)
    text.flush()
    text.detach()


def _csv_cell(value: Cell) -> Cell:
    """A text that a spreadsheet would take for a formula gets an apostrophe, which spreadsheets do not show."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value


def _write_parquet(file: BinaryIO, columns: Columns, lines: Lines) -> None:
    arrow, parquet = _pyarrow()
    kinds = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(itertools.islice(lines, GROUP)):
            full = [{name: line.get(name) for name in columns} for line in group]
            writer.write_table(arrow.Table.from_pylist(full, schema))


def _pyarrow() -> tuple[Any, Any]:
    return extras.load("Parquet", "pyarrow"), extras.load("Parquet", "pyarrow.parquet")
