"""reports/rows.jsonl of older versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.store import Store
from farm.store.rows import row_data
from runtime.errors import FormatError
from tests.farm.store.rows import a_row

ROWS_FILE = Path("reports/rows.jsonl")
ROWS = [row_data(a_row(unit=name)) for name in ("a", "b")]


@pytest.fixture(autouse=True)
def in_a_folder_with_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ROWS_FILE.parent.mkdir()
    ROWS_FILE.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS) + '{"schema_version": 1, "mod')


def test_legacy_rows_are_imported_once() -> None:
    told: list[str] = []
    for _ in range(2):
        with Store.open(tell=told.append) as store:
            assert list(store.rows()) == ROWS
            (run,) = store.runs()
    assert (run.name, run.state) == ("rows.jsonl", "finished")
    assert told == [
        "reports/farm.db: took over 2 rows from reports/rows.jsonl, which is reports/rows.jsonl.imported now"
        "; damaged lines passed over: 1"
    ]
    assert [path.name for path in sorted(Path("reports").iterdir())] == ["farm.db", "rows.jsonl.imported"]


def test_rows_of_another_version_are_refused_and_left_alone() -> None:
    text = ROWS_FILE.read_text() + '\n{"schema_version": 99}\n'
    ROWS_FILE.write_text(text)
    with pytest.raises(
        FormatError, match=r"rows.jsonl:4: row of schema version 99, this farm reads 1; nothing was taken"
    ):
        Store.open()
    assert ROWS_FILE.read_text() == text
    assert [path.name for path in Path("reports").iterdir()] == ["rows.jsonl"]


def test_only_the_default_store_imports_legacy_rows() -> None:
    with Store.open("reports/other.db") as store:
        assert list(store.rows()) == []
    assert ROWS_FILE.exists()
