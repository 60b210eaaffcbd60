"""The JSON Schema of rows: it is the one of the docs, and tells of every row type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm.rows import schema
from farm.rows.row import Row
from farm.rows.schema import ROW_TYPES, job_of, rows_schema

FILE = Path(__file__).parents[3] / "docs/rows.schema.json"
IDENTITY = dict.fromkeys(("unit", "soc", "device_model", "library", "model", "runtime"), "x")


def below(row_type: type[Row]) -> set[type[Row]]:
    return {row_type}.union(*(below(child) for child in row_type.__subclasses__()))


def test_the_file_of_the_docs_is_up_to_date() -> None:
    assert FILE.read_text() == schema.text(), "renew with `python -m farm.rows.schema > docs/rows.schema.json`"


def test_every_row_type_of_farm_is_in_it_under_its_own_job() -> None:
    ours = {row_type for row_type in below(Row) - {Row} if row_type.__module__.startswith("farm.")}
    assert ours == set(ROW_TYPES)
    assert len({job_of(row_type) for row_type in ROW_TYPES}) == len(ROW_TYPES)


@pytest.mark.parametrize("row_type", ROW_TYPES, ids=job_of)
def test_a_row_has_the_members_that_its_definition_names(row_type: type[Row]) -> None:
    definition: dict[str, Any] = rows_schema()["$defs"][row_type.__name__]
    row = json.loads(row_type.model_validate({**IDENTITY, "status": "failed"}).model_dump_json())
    assert set(row) == set(definition["properties"])
    assert definition["properties"]["job"] == {"const": row["job"]}
    assert set(definition["required"]) <= set(row)
