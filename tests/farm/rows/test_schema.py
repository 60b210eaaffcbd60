"""The JSON Schema of rows: `farm schema` prints it, and it tells of every row type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farm import cli
from farm.rows.row import Row
from farm.rows.schema import ROW_TYPES, job_of, rows_schema

IDENTITY = dict.fromkeys(("unit", "soc", "device_model", "library", "model", "runtime"), "x")


def below(row_type: type[Row]) -> set[type[Row]]:
    return {row_type}.union(*(below(child) for child in row_type.__subclasses__()))


def test_the_command_prints_it_and_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (cli.call(["schema"]), cli.call(["schema", "-o", "rows.json"])) == (0, 0)
    printed = capsys.readouterr().out
    assert json.loads(printed) == rows_schema()
    assert Path("rows.json").read_text() == printed


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
