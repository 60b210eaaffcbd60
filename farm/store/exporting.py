"""Writes a store into files: JSON lines, or flat tables as CSV or Parquet in a folder. Files appear whole."""

from __future__ import annotations

import csv
import enum
import io
import itertools
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Connection, RowMapping, Table, select

from farm import atomic_file
from farm.rows.device_state import DeviceState
from farm.rows.row import OWN_ENGINE
from farm.safe_text import one_line
from farm.store import schema
from farm.store.engine import snapshot
from farm.store.lines import FORMAT, ExportHeader, RunData, RunLine, encoded_line
from farm.store.rows import json_text
from farm.store.series import point_value, series_key
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


# Converts a store to flat tables for spreadsheets and data frames: runs, rows, samples, points, progress, baselines.
#
# The table `rows` contains each row's whole JSON, so that nothing is lost; `samples` has a line for each measured
# round, with the state of the unit before and after it.
Cell = str | int | float | bool | None
Columns = Mapping[str, type]
Lines = Iterator[dict[str, Cell]]

_FIGURES = ("init_ms", "first_ms", "cosine", "sqnr_db", "max_abs_error", "time_ns", "tuned_ratio", "gain_percent")
_NAMES = ("unit", "soc", "library", "model", "runtime", "engine")
_KEY = ("unit", "library", "model", "runtime", "engine", "setting", "metric")
_SAMPLED = ("latency_ms", "default_latency_ms")  # members of rows that have samples


def _cell_type(annotation: Any) -> type:
    """The type of a figure that may be missing; text for what is none."""
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return next((kind for kind in (bool, int, float) if kind in kinds), str)


_STATE: Columns = {name: _cell_type(field.annotation) for name, field in DeviceState.model_fields.items()}

COLUMNS: Mapping[str, Columns] = {
    "runs": {"run": int, **dict.fromkeys(RunData.model_fields, str)},
    "rows": {
        "run": int,
        "row": int,
        **dict.fromkeys(("job", "time", *_NAMES, "status", "settings_hash", "fingerprint_hash"), str),
        **dict.fromkeys(("reason", "throttled"), str),
        "latency_ms": float,
        **dict.fromkeys(_FIGURES, float),
        "json": str,
    },
    "samples": {
        "run": int,
        "row": int,
        **dict.fromkeys((*_NAMES, "of"), str),
        "block": int,
        **dict.fromkeys(("arm", "time"), str),
        "rerun": bool,
        "sample": int,
        "ms": float,
        "throttled": str,
        **{f"before_{name}": kind for name, kind in _STATE.items()},
        **{f"after_{name}": kind for name, kind in _STATE.items()},
    },
    "points": {
        "run": int,
        **dict.fromkeys(_KEY, str),
        "value": float,
        "json": str,
    },
    "progress": {"run": int, "key": str, "json": str},
    "baselines": {"name": str, "run": int},
}


def flat_tables(connection: Connection, streamed: int) -> Iterator[tuple[str, Lines]]:
    """Yields each table's name and its lines, which are read lazily."""
    line_makers = {"runs": _runs, "rows": _rows, "samples": _samples, "points": _points, "progress": _progress}
    streaming = connection.execution_options(yield_per=streamed)
    for name, lines in line_makers.items():
        yield name, lines(streaming)
    yield "baselines", _baselines(streaming)


def _all(connection: Connection, table: Table) -> Iterator[RowMapping]:
    return iter(connection.execute(select(table).order_by(*table.primary_key)).mappings())


def _runs(connection: Connection) -> Lines:
    for run in _all(connection, schema.runs):
        yield {"run": run["id"], **{name: _cell(run[name], str) for name in RunData.model_fields}}


def _rows(connection: Connection) -> Lines:
    for record in _all(connection, schema.rows):
        row = record["row"]
        beside = {name: record[name] for name in COLUMNS["rows"] if name in record and name != "row"}
        latency = row.get("latency_ms")
        yield {
            **beside,
            "run": record["run_id"],
            "row": record["id"],
            "engine": _engine(row),
            **{name: one_line(str(row.get(name) or "")) for name in ("reason", "throttled")},
            "latency_ms": _cell(latency.get("median") if isinstance(latency, dict) else None, float),
            **{name: _cell(row.get(name), float) for name in _FIGURES},
            "json": json_text(row),
        }


def _samples(connection: Connection) -> Lines:
    for record in _all(connection, schema.rows):
        names = {name: record[name] for name in _NAMES if name in record}
        names |= {"run": record["run_id"], "row": record["id"], "engine": _engine(record["row"])}
        for group in _sampled(record["row"]):
            samples = group.pop("samples")
            for number, value in enumerate(samples, 1):
                yield {**names, **group, "sample": number, "ms": _cell(value, float)}


def _engine(row: Mapping[str, Any]) -> str:
    return one_line(str(row.get("engine") or OWN_ENGINE))


def _sampled(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields groups of a row's samples, each with the members that its samples share."""
    for of in _SAMPLED:
        if isinstance(latency := row.get(of), dict):
            states = {**_state("before", row), **_state("after", row)}
            throttled = one_line(str(row.get("throttled") or ""))
            yield {"of": of, "time": row["time"], "throttled": throttled, **states, "samples": latency["samples"]}
    for number, block in enumerate(row.get("blocks", ()), 1):
        states = {**_state("before", block), **_state("after", block)}
        described = {
            name: _cell(block.get(name), COLUMNS["samples"][name]) for name in ("arm", "time", "rerun", "throttled")
        }
        yield {"of": "block", "block": number, **described, **states, "samples": block["samples"]}


def _state(when: str, of: Mapping[str, Any]) -> dict[str, Cell]:
    state = of.get(f"state_{when}") or {}
    return {f"{when}_{name}": _cell(state.get(name), kind) for name, kind in _STATE.items()}


def _points(connection: Connection) -> Lines:
    keys = {
        number: series_key(key) for number, key in connection.execute(select(schema.series.c.id, schema.series.c.key))
    }
    for record in _all(connection, schema.points):
        key = keys[record["series_id"]]
        case = {name: one_line(getattr(key.case, name)) for name in _KEY[:-1]}
        value = point_value(record["point"])
        yield {
            "run": record["run_id"],
            **case,
            "metric": str(key.metric),
            "value": value,
            "json": json_text(record["point"]),
        }


def _progress(connection: Connection) -> Lines:
    for note in _all(connection, schema.progress):
        yield {"run": note["run_id"], "key": note["key"], "json": json_text(note["data"])}


def _baselines(connection: Connection) -> Lines:
    for baseline in _all(connection, schema.baselines):
        yield {"name": baseline["name"], "run": baseline["run_id"]}


def _cell(value: Any, kind: type) -> Cell:
    """A value as its column's type: None where it is not of it, JSON where the column is text and it is none."""
    if value is None or kind is str:
        return value if value is None else one_line(value) if isinstance(value, str) else json_text(value)
    if kind is float:
        return float(value) if isinstance(value, int | float | str) else None
    return value if kind in (bool, int) and isinstance(value, bool | int) else None
