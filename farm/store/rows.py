"""Converts rows to what the store holds: exact JSON, and columns to search by."""

import datetime
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from farm.rows.nightly import NightlyRow
from farm.rows.row import SCHEMA_VERSION, Row
from farm.rows.series import digest
from farm.safe_text import one_line
from runtime.errors import FormatError

MAX_COLUMN = 200  # characters; databases limit what they index
NIGHTLY = "nightly"
COLUMNS = ("job", "unit", "soc", "library", "model", "runtime", "status")


def row_data(row: Row) -> dict[str, Any]:
    """A row as plain data; NaN and infinities are the words that pydantic reads again, as JSON has none."""
    data: dict[str, Any] = json_value(row.model_dump(mode="json"))
    return data


def json_value(value: Any) -> Any:
    """Converts a Python value to a JSON value; floats that are not finite become words."""
    if isinstance(value, float):
        return value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value


def json_text(value: Any) -> str:
    """Writes a value as JSON: exact, in one line, without NaN."""
    return json.dumps(value, allow_nan=False)


def check_version(data: Mapping[str, Any]) -> None:
    """Raises FormatError (without file and line) where a row has another schema version."""
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise FormatError(f"row of schema version {one_line(str(version))[:20]}, this farm reads {SCHEMA_VERSION}")


def is_complete_row(data: Mapping[str, Any]) -> bool:
    """Whether plain data has all that a row needs."""
    if not all(isinstance(data.get(name), str) for name in (*COLUMNS, "time")):
        return False
    try:
        return data["job"] != NIGHTLY or bool(nightly_row(data))
    except FormatError:
        return False


def row_columns(run: int, uid: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The column values of a run's row in the table `rows`."""
    return {
        "run_id": run,
        "digest": hashlib.sha256(f"{uid}\n{json_text(data)}".encode()).hexdigest()[:32],
        "time": utc_time(str(data["time"])),
        **{name: column_text(str(data[name])) for name in COLUMNS},
        "settings_hash": digest(data.get("settings")),
        "fingerprint_hash": digest(data.get("fingerprint")),
        "row": data,
    }


def column_text(text: str) -> str:
    """A text as columns hold it."""
    return one_line(text)[:MAX_COLUMN]


def utc_time(time: str) -> str:
    """A time as ISO 8601 in UTC, so that texts sort like times; a text that is no time stays as it is."""
    try:
        moment = datetime.datetime.fromisoformat(time)
    except ValueError:
        return column_text(time)
    return moment.astimezone(datetime.UTC).isoformat() if moment.tzinfo else time


def nightly_row(data: Mapping[str, Any]) -> NightlyRow:
    """Parses a nightly row; raises FormatError where the data is none."""
    try:
        return NightlyRow.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FormatError(f"a nightly row cannot be read: {one_line(where)}: {one_line(first['msg'])}") from None
