"""A store as JSON lines: what `farm store export` writes and `farm store import` reads.

The first line is the header, `{"farm_store": 1}`. Then each run, oldest first, its rows and its progress; then
baselines. A file without a header is one of rows alone, as reports/rows.jsonl was: these are a run of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter
from sqlalchemy import Connection, select

from farm.rows.record import Record
from farm.safe_text import one_line
from farm.store import schema
from farm.store.rows import check_version, column_text, is_complete_row, json_text, json_value
from runtime.errors import FormatError

FORMAT = 1

Line = Annotated[str, AfterValidator(one_line)]
Name = Annotated[str, AfterValidator(column_text)]
Uid = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Plain = Annotated[dict[str, Any], AfterValidator(json_value)]


class ExportHeader(Record):
    """The first line."""

    farm_store: int


class RunData(Record):
    """A run: `uid` tells it from all others wherever it is kept."""

    uid: Uid
    name: Name
    command: Line = ""
    started: Line
    ended: Line = ""
    state: Literal["running", "finished", "interrupted"] = "finished"
    commit: Name = ""
    versions: dict[str, str] = Field(default_factory=dict)
    process: Line = ""

    @classmethod
    def of(cls, run: Mapping[Any, Any]) -> RunData:
        """The run of a record of the table."""
        return cls.model_validate({name: run[name] for name in cls.model_fields})


class RunLine(Record):
    """A run."""

    run: RunData


class RowLine(Record):
    """A row of the run `of`."""

    of: Uid
    row: Plain


class ProgressLine(Record):
    """A note of the run `of`."""

    of: Uid
    key: Line
    progress: Plain


class BaselineLine(Record):
    """A name of the run `of`."""

    of: Uid
    baseline: Name


class BareRow(Record):
    """A row of a file of rows."""

    row: Plain


AnyLine = ExportHeader | RunLine | RowLine | ProgressLine | BaselineLine
_LINE: TypeAdapter[AnyLine] = TypeAdapter(AnyLine)


def parse_line(text: bytes) -> AnyLine | BareRow | None:
    """Parses a line; None where it is damaged. Raises FormatError (without file and line) for another version."""
    try:
        data = json.loads(text)
        is_bare = isinstance(data, dict) and "schema_version" in data
        line = BareRow(row=data) if is_bare else _LINE.validate_python(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(line, ExportHeader) and line.farm_store != FORMAT:
        raise FormatError(f"export of version {line.farm_store}, this farm reads {FORMAT}")
    if isinstance(line, BareRow | RowLine):
        check_version(line.row)
        return line if is_complete_row(line.row) else None
    return line


def encoded_line(line: AnyLine) -> bytes:
    """Encodes a line as bytes, line end included."""
    return f"{json_text(line.model_dump(mode='json'))}\n".encode()


def export_lines_of(connection: Connection, streamed: int) -> Iterator[bytes]:
    """Yields a whole store as encoded lines; `streamed` is the number of rows fetched at a time."""
    yield encoded_line(ExportHeader(farm_store=FORMAT))
    runs = connection.execute(select(schema.runs).order_by(schema.runs.c.id)).mappings().all()
    uids = {run["id"]: run["uid"] for run in runs}
    rows, notes, names = schema.rows.c, schema.progress.c, schema.baselines.c
    streaming = connection.execution_options(yield_per=streamed)
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
