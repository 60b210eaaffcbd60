"""A store as JSON lines: what `farm store export` writes and `farm store import` reads.

The first line is the header, `{"farm_store": 1}`. Then each run, oldest first, its rows and its progress; then
baselines. A file without a header is one of rows alone, as reports/rows.jsonl was: these are a run of their own.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from farm.rows.record import Record
from farm.rows.row import versions
from farm.safe_text import one_line
from farm.store.process import own_process
from farm.store.rows import check_version, column_text, is_complete_row, json_text, json_value
from runtime.errors import FormatError

FORMAT = 1
RUNNING: Final = "running"
FINISHED: Final = "finished"
INTERRUPTED: Final = "interrupted"

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


def new_run(name: str, command: str, commit: str) -> RunData:
    """Describes a run of this process that begins now."""
    return RunData(
        uid=uuid.uuid4().hex,
        name=name,
        command=command,
        started=now(),
        state=RUNNING,
        commit=commit,
        versions=versions(),
        process=own_process(),
    )


def now() -> str:
    """The time as the store writes it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


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
