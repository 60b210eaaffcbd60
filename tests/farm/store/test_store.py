"""What a store keeps, and how it is asked for it."""

import contextlib
import datetime
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm.cli import call
from farm.rows.series import Case, Metric, SeriesKey, case_of
from farm.store import Store, adding
from runtime.errors import ConfigError, StoreError
from tests.farm.store.rows import a_block, a_nightly_row, a_row

LATENCY = SeriesKey(Case("pixel", "lib", "net", "gpu", "default"), Metric.LATENCY)


def test_a_run_begins_ends_and_goes_on(store: Store) -> None:
    run = store.begin("lab", "farm nightly lab.yml", "c0ffee")
    begun = store.run(run)
    assert (begun.name, begun.command, begun.commit) == ("lab", "farm nightly lab.yml", "c0ffee")
    assert (begun.state, begun.ended) == ("running", "")
    assert begun.versions["farm"] and datetime.datetime.fromisoformat(begun.started).tzinfo == datetime.UTC
    store.end(run, "interrupted")
    assert store.run(run).state == "interrupted" and store.run(run).ended
    store.end(run, "running")
    assert (store.run(run).state, store.run(run).ended) == ("running", "")
    store.end(run)
    assert store.run(run).state == "finished"


def test_runs_are_listed_newest_first(store: Store) -> None:
    first, second, third = (store.begin(name, "") for name in ("a", "b", "a"))
    assert [run.id for run in store.runs()] == [third, second, first]
    assert [run.id for run in store.runs("a")] == [third, first]
    assert [run.id for run in store.runs("a", limit=1)] == [third]


def test_unknown_runs_and_baselines_are_config_errors(store: Store) -> None:
    for ask in (store.run, store.end, lambda run: store.add(run, [a_row()]), lambda run: store.set_baseline("x", run)):
        with pytest.raises(ConfigError, match=r"run 7: not in .*`farm store info` lists the runs"):
            ask(7)
    with pytest.raises(ConfigError, match=r"baseline gone: .* has none of this name"):
        store.drop_baseline("gone")


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_interrupted(store: Store, url: str) -> None:
    begin = f"import os, sys; from farm.store import Store; Store.open({url!r}).begin('killed', ''); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", begin]).returncode == 9
    own = store.begin("alive", "")
    (killed,) = store.runs("killed")
    assert (killed.state, killed.ended) == ("interrupted", "")
    assert store.run(own).state == "running"


def test_rows_come_back_as_they_were(store: Store) -> None:
    rows = [a_row(), a_row(status="timeout", reason="too\nlate \x1b[31m", latency_ms=None), a_nightly_row()]
    run = store.begin("run", "")
    store.add(run, rows)
    assert list(store.rows(run)) == [row.model_dump(mode="json") for row in rows]
    assert store.nightly_rows(run) == [rows[2]]


def test_a_row_that_is_added_again_is_kept_once(store: Store) -> None:
    run, other = store.begin("run", ""), store.begin("run", "")
    for _ in range(3):
        store.add(run, [a_row(), a_nightly_row(), a_row()])
    store.add(other, [a_row()])
    assert [row["job"] for row in store.rows(run)] == ["run", "nightly"]
    assert len(list(store.rows(other))) == 1


def test_rows_are_all_added_or_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = store.begin("run", "")
    monkeypatch.setattr(adding, "store_points", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.add(run, [a_row(), a_nightly_row()])
    assert list(store.rows(run)) == []


def test_rows_are_filtered_by_run_job_unit_model_and_time(store: Store) -> None:
    run = store.begin("run", "")
    store.add(run, [a_row(unit="a"), a_row(unit="b", model="other", time="2026-03-02T01:30:00+02:00"), a_nightly_row()])
    assert [row["job"] for row in store.rows(job="nightly")] == ["nightly"]
    assert [row["model"] for row in store.rows(unit="b")] == ["other"]
    assert len(list(store.rows(model="net"))) == 2
    at_night = datetime.datetime(2026, 3, 1, 23, 0, tzinfo=datetime.UTC)
    assert [row["unit"] for row in store.rows(since=at_night)] == ["b"]
    assert list(store.rows(run + 1)) == []


HOSTILE = "'; DROP TABLE rows; --\0\x1b[2J\u202e" + "x" * 10_000


def test_texts_of_devices_and_models_are_stored_exactly(store: Store) -> None:
    row = a_nightly_row(unit=HOSTILE, model=HOSTILE, reason=HOSTILE, identity=HOSTILE, status="failed")
    run = store.begin(HOSTILE, HOSTILE)
    store.add(run, [row])
    store.note_progress(run, HOSTILE, {HOSTILE: HOSTILE})
    store.set_baseline(HOSTILE, run)
    assert store.nightly_rows(run) == [row]
    assert len(list(store.rows(unit=HOSTILE, model=HOSTILE))) == 1
    assert {key.case for key in store.series()} == {case_of(row)}
    assert store.series(name=HOSTILE) == store.series()
    assert [point.identity for point in store.series()[SeriesKey(case_of(row), Metric.LATENCY)]] == [HOSTILE]
    assert [data for _, data in store.progress(run)] == [{HOSTILE: HOSTILE}]
    assert store.run(run).command.isprintable() and store.run(run).name.isprintable()
    store.drop_baseline(HOSTILE)


def test_figures_that_are_not_finite_are_kept(store: Store) -> None:
    run = store.begin("lab", "")
    store.add(
        run, [a_nightly_row(a_block(1.0, float("nan"), float("inf")), a_block(-math.inf), a_block(-0.0, 1e22, 5e-324))]
    )
    first, second, third = (block.samples for block in store.nightly_rows(run)[0].blocks)
    assert first[0] == 1.0 and math.isnan(first[1]) and first[2] == math.inf and second == (-math.inf,)
    assert third == (0.0, 1e22, 5e-324) and math.copysign(1, third[0]) == -1
    (point,) = store.series()[LATENCY]
    assert math.isnan(point.runs[0]) or point.runs[0] in (1.0, math.inf)
    assert point.runs[1] == -math.inf


def test_series_are_in_the_order_of_runs_whatever_the_clock_says(store: Store) -> None:
    times = ["2026-03-03T00:00:00+00:00", "1970-01-01T00:00:00+00:00", "2026-03-04T00:00:00+00:00"]
    for night, time in enumerate(times):
        store.add(store.begin("lab", "", f"commit{night}"), [a_nightly_row(a_block(float(night)), time=time)])
    points = store.series()[LATENCY]
    assert [point.time for point in points] == times
    assert [point.commit for point in points] == ["commit0", "commit1", "commit2"]
    assert [point.value for point in points] == [0.0, 1.0, 2.0]
    assert {key.metric for key in store.series()} >= {Metric.LATENCY, Metric.INIT, Metric.FIRST, Metric.COSINE}


def test_series_can_be_limited_to_some_nights(store: Store) -> None:
    runs = []
    for night in range(5):
        runs.append(store.begin("lab", ""))
        store.add(runs[-1], [a_nightly_row(a_block(float(night)))])
        store.add(store.begin("other", ""), [a_nightly_row(unit="twin")])
        store.begin("run", "")
    assert set(store.series(name="lab")) < set(store.series())
    assert [point.run for point in store.series(name="lab")[LATENCY]] == runs
    assert [point.run for point in store.series(until=runs[2], name="lab")[LATENCY]] == runs[:3]
    assert [point.run for point in store.series(until=runs[3], nights=2, name="lab")[LATENCY]] == runs[2:4]
    assert store.series(until=runs[0] - 1) == {}
    assert store.series(name="nobody") == {}


def test_a_case_that_is_measured_again_in_a_run_counts_once(store: Store) -> None:
    run = store.begin("lab", "")
    good = a_nightly_row()
    store.add(run, [a_nightly_row(status="device_lost", reason="gone", cosine=0.1)])
    store.add(run, [good])
    assert store.nightly_rows(run) == [good]
    assert len(list(store.rows(run))) == 2
    (point,) = store.series()[LATENCY]
    assert (point.status, point.runs, point.arms) == ("ok", (5.5, 5.5), ("a", "b"))
    store.add(run, [a_nightly_row(status="failed", blocks=(), cosine=None)])
    assert {key: [point.status for point in points] for key, points in store.series().items()} == {LATENCY: ["failed"]}


def test_progress_notes_of_a_run_are_returned_in_order(store: Store) -> None:
    run, other = store.begin("lab", ""), store.begin("lab", "")
    for number in range(3):
        store.note_progress(run, "case", {"block": number})
    store.note_progress(run, "plan", {"seed": 3.5})
    store.note_progress(other, "case", {})
    assert store.progress(run) == [*(("case", {"block": number}) for number in range(3)), ("plan", {"seed": 3.5})]
    assert store.progress(other) == [("case", {})]


def test_baselines_move_and_are_dropped(store: Store) -> None:
    first, second = store.begin("lab", ""), store.begin("lab", "")
    store.set_baseline("release", first)
    store.set_baseline("good", second)
    store.set_baseline("release", second)
    assert store.baselines() == {"good": second, "release": second}
    store.drop_baseline("release")
    assert store.baselines() == {"good": second}


def test_threads_use_a_store_at_once(store: Store) -> None:
    run = store.begin("lab", "")

    def work(number: int) -> None:
        store.add(run, [a_row(unit=f"unit{number}")])
        store.note_progress(run, f"unit{number}", {})
        assert list(store.rows(unit=f"unit{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert len(list(store.rows(run))) == len(store.progress(run)) == 16


def test_a_store_is_opened_again(url: str) -> None:
    with Store.open(url) as store:
        store.add(store.begin("run", ""), [a_row()])
    with Store.open(url) as store:
        assert len(list(store.rows())) == 1


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://host/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///x.db?mode=ro",
        "postgresql://host",
        "http://",
        "a\0b",
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^--store: .*; use a path, sqlite:///PATH or postgresql://"):
        Store.open(url)


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o002, 0o664)])
def test_the_umask_says_who_may_read_and_write_a_new_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        Store.open(str(tmp_path / "farm.db")).close()
    finally:
        os.umask(before)
    assert (tmp_path / "farm.db").stat().st_mode & 0o777 == mode


NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    """A store with a row, in a folder that nobody may write; pytest's own folders cannot be entered by other users."""
    folder = Path(tempfile.mkdtemp())
    found = folder / "farm.db"
    with Store.open(str(found)) as store:
        store.add(store.begin("run", ""), [a_row(unit="mi8")])
    found.chmod(0o444)
    folder.chmod(0o555)
    yield found
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """Root may write everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("words", [["store", "info"], ["store", "verify"], ["store", "export", "-"]])
def test_it_is_read_and_nothing_is_left_beside_it(
    path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with somebody_else():
        assert call([*words, "--store", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_it_is_not_written(path: Path) -> None:
    with somebody_else(), Store.open(str(path)) as store:
        assert len(store.runs()) == 1
        with pytest.raises(StoreError, match=r"farm\.db: cannot be written: read-only; look at the rights"):
            store.begin("run", "")


def test_rows_that_its_log_has_are_seen(path: Path) -> None:
    """Somebody writes it: what is not yet in the file itself counts."""
    path.chmod(0o644)
    path.parent.chmod(0o755)
    writer = sqlite3.connect(path)
    writer.execute("UPDATE runs SET name = 'changed'")
    writer.commit()
    path.parent.chmod(0o555)
    path.chmod(0o444)
    with somebody_else(), Store.open(str(path)) as store:
        assert [run.name for run in store.runs()] == ["changed"]
    writer.close()
