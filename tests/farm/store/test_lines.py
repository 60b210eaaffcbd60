"""Export and import: nothing is lost, nothing comes twice."""

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.store import Store, exporting
from farm.store.exporting import COLUMNS, ExportFormat
from farm.store.importing import ImportResult, import_file
from farm.store.rows import row_data
from runtime.errors import ConfigError, FormatError
from tests.farm.store.rows import COOL, WARM, a_block, a_nightly_row, a_row

TEXT = st.text(max_size=12)
FIGURE = st.floats(allow_nan=True) | st.none()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
STATUS = st.sampled_from(["ok", "failed", "timeout"])
RUN_ROWS = st.builds(
    a_row,
    unit=TEXT,
    model=TEXT,
    status=STATUS,
    reason=TEXT,
    init_ms=FIGURE,
    settings=st.dictionaries(TEXT, JSON, max_size=3),
)
BLOCKS = st.builds(a_block, st.floats(), st.floats(), arm=st.sampled_from("ab"), throttled=TEXT)
NIGHTLY_ROWS = st.builds(a_nightly_row, BLOCKS, unit=TEXT, model=TEXT, reason=TEXT, tuned_ratio=FIGURE)
RUNS = st.lists(
    st.tuples(
        TEXT,
        st.sampled_from(["finished", "interrupted", "running"]),
        st.lists(RUN_ROWS | NIGHTLY_ROWS, max_size=3),
        st.lists(st.tuples(TEXT, st.dictionaries(TEXT, JSON, max_size=2)), max_size=2),
        st.lists(TEXT, max_size=1),
    ),
    max_size=3,
)


def fill(store: Store, runs: list[Any]) -> None:
    for name, state, rows, notes, baselines in runs:
        run = store.begin(name, f"farm {name}")
        store.add(run, rows)
        for key, data in notes:
            store.note_progress(run, key, data)
        for baseline in baselines:
            store.set_baseline(baseline, run)
        store.end(run, state)


def exported(store: Store) -> bytes:
    file = io.BytesIO()
    exporting.export_lines(store, file)
    return file.getvalue()


def taken(store: Store, content: bytes, folder: Path) -> ImportResult:
    path = folder / "lines.jsonl"
    path.write_bytes(content)
    with store.writing() as connection:
        return import_file(connection, path)


@pytest.mark.slow
@settings(max_examples=25)
@given(RUNS)
def test_an_imported_export_exports_the_same_lines(runs: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as name, Store.open(f"{name}/a.db") as store, Store.open(f"{name}/b.db") as copy:
        fill(store, runs)
        content = exported(store)
        assert taken(copy, content, Path(name)).damaged == []
        assert exported(copy) == content
        assert copy.baselines() == store.baselines() and str(copy.series()) == str(store.series())
        again = taken(copy, content, Path(name))
        assert (again.runs, again.rows) == (0, 0) and exported(copy) == content


EXAMPLE: list[Any] = [
    (
        "lab",
        "finished",
        [a_row(reason="\0\ud7ff", init_ms=1e22), a_nightly_row(a_block(-0.0, float("nan")))],
        [("k", {})],
        ["x"],
    ),
    ("run", "interrupted", [a_row(settings={"b": [1.0, 1e-7, 2**70], "a": None})], [], []),
]


def test_sqlite_and_postgresql_export_the_same_lines(url: str, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "first.db")) as first, Store.open(url) as store:
        fill(first, EXAMPLE)
        content = exported(first)
        assert taken(store, content, tmp_path) == ImportResult(runs=2, rows=3)
        assert exported(store) == content
        assert str(store.series()) == str(first.series())
        assert taken(store, content, tmp_path) == ImportResult(known=3)
        assert exported(store) == content


def test_a_file_of_bare_rows_becomes_a_run_of_its_own(store: Store, tmp_path: Path) -> None:
    rows = [row_data(a_row()), row_data(a_nightly_row())]
    content = b"".join(f"{json.dumps(row)}\n".encode() for row in rows)
    assert taken(store, content, tmp_path) == ImportResult(runs=1, rows=2)
    assert taken(store, content, tmp_path) == ImportResult(known=2)
    assert list(store.rows()) == rows and len(store.series()) == 4
    (run,) = store.runs()
    assert (run.name, run.started) == ("lines.jsonl", rows[0]["time"])


DAMAGED = {
    "torn": b'{"of": "',
    "no JSON": b"\xff\x00",
    "empty": b"",
    "no object": b"[1, 2]",
    "unknown": b'{"speed": 1}',
    "of no run": b'{"of": "00000000000000000000000000000000", "row": {"schema_version": 1}}',
    "half a row": b'{"schema_version": 1, "job": "run"}',
    "too deep": b"[" * 100_000,
    "too large a number": b'{"schema_version": ' + b"9" * 5000 + b"}",
    "bad nightly row": json.dumps(row_data(a_nightly_row()) | {"blocks": [{}]}).encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_lines_are_skipped_and_reported(kind: str, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store, Store.open(str(tmp_path / "copy.db")) as copy:
        fill(store, EXAMPLE)
        lines = exported(store).splitlines()
        spoiled = b"\n".join([*lines[:3], DAMAGED[kind], *lines[3:]])
        assert taken(copy, spoiled, tmp_path) == ImportResult(runs=2, rows=3, damaged=[4])
        assert exported(copy) == exported(store)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"farm_store": 2}', "export of version 2, this farm reads 1"),
        (b'{"schema_version": 2}', "row of schema version 2, this farm reads 1"),
    ],
)
def test_lines_of_another_version_are_refused_and_nothing_is_imported(
    line: bytes, told: str, store: Store, tmp_path: Path
) -> None:
    with pytest.raises(FormatError, match=rf"lines.jsonl:2: {told}; nothing was taken over"):
        taken(store, json.dumps(row_data(a_row())).encode() + b"\n" + line, tmp_path)
    assert store.runs() == []


FLAT: list[Any] = [
    (
        "lab",
        "finished",
        [a_nightly_row(a_block(5.0, 5.5), a_block(6.0, arm="b", throttled="thermal"))],
        [("k", {"a": 1})],
        ["x"],
    ),
    ("run", "finished", [a_row(reason="=cmd|'/c calc'!A0", model="+net")], [], []),
]


def flat(store: Store, folder: Path) -> dict[str, list[dict[str, str]]]:
    paths = exporting.export_tables(store, folder, ExportFormat.CSV)
    return {path.stem: list(csv.DictReader(io.StringIO(path.read_bytes().decode(), ""))) for path in paths}


def test_flat_tables_have_a_line_a_sample_and_lose_nothing(store: Store, tmp_path: Path) -> None:
    fill(store, FLAT)
    tables = flat(store, tmp_path / "flat")
    assert {name: len(lines) for name, lines in tables.items()} == {
        "runs": 2, "rows": 2, "samples": 6, "points": 4, "progress": 1, "baselines": 1
    }  # fmt: skip
    assert [json.loads(line["json"]) for line in tables["rows"]] == list(store.rows())
    told = ("of", "block", "arm", "sample", "ms", "throttled", "before_temperature_c", "after_clock_mhz")
    assert [tuple(line[name] for name in told) for line in tables["samples"]] == [
        ("block", "1", "a", "1", "5.0", "", str(COOL.temperature_c), "[1800.0, 1400.0]"),
        ("block", "1", "a", "2", "5.5", "", str(COOL.temperature_c), "[1800.0, 1400.0]"),
        ("block", "2", "b", "1", "6.0", "thermal", str(COOL.temperature_c), "[1800.0, 1400.0]"),
        *(
            ("latency_ms", "", "", str(n), ms, "", "31.5", "[1800.0, 1400.0]")
            for n, ms in ((1, "2.0"), (2, "1.0"), (3, "4.0"))
        ),
    ]
    assert tables["samples"][0]["after_temperature_c"] == str(WARM.temperature_c)
    assert (tables["rows"][1]["reason"], tables["rows"][1]["model"]) == ("'=cmd|'/c calc'!A0", "'+net")
    assert json.loads(tables["progress"][0]["json"]) == {"a": 1} and tables["baselines"] == [{"name": "x", "run": "1"}]


def test_parquet_holds_what_csv_holds(store: Store, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    fill(store, FLAT)
    tables = flat(store, tmp_path)
    for path in exporting.export_tables(store, tmp_path, ExportFormat.PARQUET):
        table = parquet.read_table(path)
        assert table.column_names == list(COLUMNS[path.stem])
        shown = [{name: "" if each[name] is None else str(each[name]) for name in each} for each in table.to_pylist()]
        assert shown == [{name: value.removeprefix("'") for name, value in each.items()} for each in tables[path.stem]]
    samples = parquet.read_table(tmp_path / "samples.parquet").to_pylist()
    assert samples[0]["ms"] == 5.0 and samples[0]["before_charging"] is False and samples[3]["rerun"] is None


def test_parquet_without_pyarrow_says_what_to_do(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(
        ConfigError, match=r"Parquet needs pyarrow, which is not installed: pip install 'farm\[parquet\]'"
    ):
        exporting.export_tables(store, tmp_path, ExportFormat.PARQUET)
    assert not list(tmp_path.glob("*.parquet"))
