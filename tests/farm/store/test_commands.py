"""`farm store` through the command line, and what prune leaves."""

import datetime
import functools
import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from farm import cli
from farm.store import Store, pruning, schema
from tests.farm.conftest import CallFarm
from tests.farm.store.rows import a_block, a_nightly_row, a_row

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def say(farm: CallFarm) -> CallFarm:
    """Runs `farm store`."""
    return functools.partial(farm, "store")


def nights(store: Store, count: int, name: str = "lab") -> list[int]:
    """Runs that began on the first days of 2026, a day each."""
    runs = []
    for night in range(count):
        runs.append(store.begin(name, f"farm nightly {name}.yml", "c0ffee0123456789"))
        store.add(runs[-1], [a_nightly_row(a_block(float(night)), unit=name)])
        store.note_progress(runs[-1], "plan", {})
        store.end(runs[-1])
        with store.writing() as connection:
            values = {"started": f"2026-01-0{night + 1}T22:00:00+00:00"}
            connection.execute(sa.update(schema.runs).where(schema.runs.c.id == runs[-1]).values(values))
    return runs


def test_info_counts_runs_rows_and_series(url: str, say: CallFarm) -> None:
    with Store.open(url) as store:
        nights(store, 2)
        store.begin("\x1b[31mrun", "farm run")
    status, out, err = say("info", "--store", url)
    assert (status, err) == (0, "") and "\x1b" not in out
    assert "runs      | 3" in out and "points    | 8" in out and "first run | 2026-01-01T22:00:00+00:00" in out
    assert [line.split(" | ")[0].strip() for line in out.splitlines()[-3:]] == ["3", "2", "1"]
    assert "lab         | 2026-01-02T22:00:00" in out
    assert "| finished |    1 | c0ffee012345 | farm nightly lab.yml" in out
    status, out, _ = say("info", "--json", "--runs", "1", "--store", url)
    told = json.loads(out)
    assert (told["store"]["layout"], told["store"]["rows"], told["store"]["size_bytes"] > 0) == (2, 2, True)
    assert [(run["id"], run["rows"], run["state"]) for run in told["runs"]] == [(3, 0, "running")]


def test_commands_that_only_read_create_no_store(say: CallFarm) -> None:
    for arguments in (["info"], ["export", "x.jsonl"], ["prune", "--keep", "1"]):
        assert say(*arguments) == (
            2,
            "",
            "error: reports/farm.db: no store there; any command that measures makes one\n",
        )
    assert list(Path().iterdir()) == []


@pytest.mark.slow
def test_export_and_import(url: str, say: CallFarm) -> None:
    with Store.open(url) as store:
        nights(store, 2)
    assert say("export", "all.jsonl", "--store", url) == (0, "", "")
    told = "all.jsonl: 2 new runs, 2 new rows, 0 rows that were there\n"
    assert say("import", "all.jsonl") == (0, told, "")
    assert say("export", "again.jsonl")[0] == 0
    assert Path("again.jsonl").read_bytes() == Path("all.jsonl").read_bytes()
    Path("all.jsonl").write_bytes(Path("again.jsonl").read_bytes() + b"{\n")
    told = "all.jsonl: 0 new runs, 0 new rows, 2 rows that were there, 1 damaged lines passed over (8)\n"
    assert say("import", "all.jsonl", "--store", url) == (1, told, "")


@pytest.mark.slow
def test_export_to_standard_output_and_as_tables(capfdbinary: Any) -> None:
    with Store.open() as store:
        nights(store, 1)
    assert cli.call(["store", "export", "-"]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["farm_store", "run", "of", "of"]
    assert cli.call(["store", "export", "flat", "--format", "csv"]) == 0
    names = ["runs", "rows", "samples", "points", "progress", "baselines"]
    assert capfdbinary.readouterr().out.decode().splitlines() == [f"flat/{name}.csv" for name in names]


def test_an_export_that_cannot_be_written_is_an_error(say: CallFarm) -> None:
    with Store.open() as store:
        nights(store, 1)
    Path("file").touch()
    status, _, err = say("export", "file/x.jsonl")
    assert (status, len(err.splitlines())) == (1, 1) and "file/x.jsonl: cannot be written" in err


@pytest.mark.slow
def test_prune_keeps_the_newest_of_each_name_and_baselines(store: Store) -> None:
    lab, other = nights(store, 4), nights(store, 2, "other")
    store.set_baseline("release", lab[0])
    running = store.begin("lab", "")
    assert pruning.prune_store(store, keep_runs=2, dry_run=True) == pruning.PruneResult(runs=2, rows=2)
    assert len(store.runs()) == 7
    assert pruning.prune_store(store, keep_runs=2) == pruning.PruneResult(runs=2, rows=2)
    assert [run.id for run in store.runs()] == [running, *other[::-1], lab[3], lab[0]]
    assert {point.run for points in store.series().values() for point in points} == {lab[0], lab[3], *other}
    assert store.progress(lab[1]) == [] and store.progress(lab[3])
    assert pruning.prune_store(store, keep_runs=2) == pruning.PruneResult(runs=0, rows=0)
    assert store.begin("lab", "") > running


def test_prune_by_time_deletes_series_without_points(store: Store) -> None:
    lab = nights(store, 3)
    before = datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC)
    assert pruning.prune_store(store, before).runs == 2
    assert [run.id for run in store.runs()] == lab[2:]
    pruning.prune_store(store, keep_runs=0)
    with store.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(schema.series)).scalar() == 0


@pytest.mark.slow
def test_prune_shrinks_the_file(tmp_path: Path, say: CallFarm) -> None:
    path = tmp_path / "reports/farm.db"
    with Store.open() as store:
        store.add(store.begin("run", ""), [a_row(unit=f"u{n}", reason="x" * 5000) for n in range(200)])
        store.end(1)
    size = path.stat().st_size
    assert say("prune", "--keep", "0") == (0, "deleted 1 runs with 200 rows\n", "")
    assert path.stat().st_size < size / 5


@pytest.mark.slow
def test_prune_without_a_limit_is_a_usage_error(say: CallFarm) -> None:
    assert say("prune") == (2, "", "error: which runs? --before DATE, --keep N, or both; or --bundles MB\n")
    with Store.open() as store:
        nights(store, 3)
    assert say("prune", "--before", "2026-01-03", "--keep", "2", "--dry-run")[1] == "would delete 1 runs with 1 rows\n"
    status, _, err = say("prune", "--before", "tomorrow")
    assert status == 2 and "does not match the format" in err
