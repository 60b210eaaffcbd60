"""The JSON Schema of all rows, which `farm schema` prints."""

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from farm.rows.benchmark import BenchmarkRow
from farm.rows.compare import CompareRow
from farm.rows.convert import ConvertRow
from farm.rows.engines import EnginesRow
from farm.rows.forecast import ForecastRow
from farm.rows.inspect import InspectRow
from farm.rows.nightly import NightlyRow
from farm.rows.opbench import OpbenchRow
from farm.rows.quantize import QuantizeRow
from farm.rows.row import Row
from farm.rows.run import RunRow
from farm.rows.tune import TuneRow

ROW_TYPES: tuple[type[Row], ...] = (
    BenchmarkRow,
    CompareRow,
    ConvertRow,
    EnginesRow,
    ForecastRow,
    InspectRow,
    NightlyRow,
    OpbenchRow,
    QuantizeRow,
    RunRow,
    TuneRow,
)
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def job_of(row_type: type[Row]) -> str:
    """The value of `job` in rows of a type."""
    return str(row_type.model_fields["job"].default)


def rows_schema() -> dict[str, Any]:
    """A schema that a row of any job is valid against; `job` says which of its definitions is the row's."""
    _, definitions = models_json_schema([(row_type, "serialization") for row_type in ROW_TYPES])
    for row_type in ROW_TYPES:
        definitions["$defs"][row_type.__name__]["properties"]["job"] = {"const": job_of(row_type)}
    one_of = [{"$ref": f"#/$defs/{row_type.__name__}"} for row_type in ROW_TYPES]
    return {"$schema": DIALECT, "oneOf": one_of, **_without_titles(definitions)}


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic makes of names: they only repeat them."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name != "title" or not isinstance(value, str)}
    return {name: _without_titles(value) for name, value in kept.items()}


def text() -> str:
    """The schema as it is written: the same for the same rows, wherever it is made."""
    return json.dumps(rows_schema(), indent=1, sort_keys=True) + "\n"
