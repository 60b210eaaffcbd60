"""`farm compare` on the command line: what A and B may be, what is printed and kept, exit status."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.cli import compare as compare_command
from farm.rows.compare import CompareRow
from farm.store import Store
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import deployment_text, write_deployment
from tests.farm.rows.nightly_rows import nightly_case


@pytest.fixture(autouse=True)
def deployment(own_folder: Path) -> None:
    write_deployment(own_folder)


@pytest.fixture
def say(farm: CallFarm) -> CallFarm:
    """Runs `farm compare`."""
    return functools.partial(farm, "compare")


@pytest.fixture
def runs() -> None:
    """Run 1; run 2, in which one model is slower and another one is gone; run 3, which is as 1."""
    with Store.open() as store:
        for rows in (
            [nightly_case(), nightly_case("n"), nightly_case("gone")],
            [nightly_case(level_ms=11, seed=2), nightly_case("n", seed=2)],
            [nightly_case(seed=3), nightly_case("n", seed=3)],
        ):
            run = store.begin("nightly", "farm nightly nightly.yml", commit="c0ffee" * 6)
            store.add(run, rows)
            store.end(run)
        store.set_baseline("good", 1)


def kept() -> list[dict[str, Any]]:
    with Store.open() as store:
        return list(store.rows(job="compare"))


@pytest.mark.usefixtures("runs")
class TestStoredRuns:
    @pytest.mark.slow
    def test_a_slower_case_is_said_kept_and_makes_the_exit_status(self, say: CallFarm) -> None:
        status, out, err = say("good", "run:2")
        assert status == 1
        assert err == "gone (gpu, default) on u: only in A\n"
        head, body = out.splitlines()[:2], out.splitlines()[4:]
        assert head == ["A: good (run 1, c0ffeec0ffee)", "B: run:2 (run 2, c0ffeec0ffee)"]
        assert body[0].startswith("m ") and "% slower" in body[0]  # the worst first
        assert body[1].startswith("n ") and "no difference beyond the noise" in body[1]
        assert [row["outcome"] for row in kept()] == ["slower", "same"]

    @pytest.mark.slow
    def test_json_is_what_is_kept(self, say: CallFarm) -> None:
        status, out, _ = say("run:1", "run:3", "--json")
        assert status == 0
        assert json.loads(out)["rows"] == kept()
        assert [row["job"] for row in kept()] == ["compare"] * 2

    @pytest.mark.slow
    def test_latest_is_the_last_night_and_no_comparison(self, say: CallFarm) -> None:
        say("run:1", "run:2")
        status, out, _ = say("good", "run:latest")
        assert status == 0 and "B: run:latest (run 3, " in out

    @pytest.mark.slow
    def test_the_margin(self, say: CallFarm) -> None:
        assert say("run:1", "run:2", "--margin", "30")[0] == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("run", ["run:9", "run:x", "run:", "run:-1", "run:1e3"])
    def test_a_run_that_is_not_there(self, say: CallFarm, run: str) -> None:
        status, out, err = say("good", run)
        assert (status, out) == (2, "")
        assert err.startswith(f"error: run {run[4:]}: not in reports/farm.db; the newest are 3 (nightly, 20")

    @pytest.mark.slow
    def test_a_run_without_cases(self, say: CallFarm) -> None:
        say("run:1", "run:3")  # is kept as run 4
        status, _, err = say("run:1", "run:4")
        assert status == 2 and "run 4 (farm compare run:1 run:3) measured no nightly cases" in err

    @pytest.mark.slow
    def test_runs_without_a_common_case(self, say: CallFarm) -> None:
        with Store.open() as store:
            store.add(store.begin("other", "farm nightly other.yml"), [nightly_case("other")])
        status, _, err = say("run:1", "run:4")
        assert status == 2 and err.endswith("error: run:1 and run:4 have no case in common\n")


def test_without_any_run(say: CallFarm) -> None:
    status, _, err = say("run:1", "run:latest")
    assert (status, err) == (
        2,
        "error: run 1: not in reports/farm.db; there is no run yet; `farm nightly` makes some\n",
    )


def test_the_latest_night_before_the_first_one(farm: CallFarm) -> None:
    with Store.open() as store:
        store.end(store.begin("run", "farm run tiny.yml"))
    said = (2, "", "error: reports/farm.db: no night has ended there yet; `farm nightly` makes nights\n")
    assert farm("report") == farm("compare", "run:latest", "run:1") == said


def test_another_store(say: CallFarm, tmp_path: Path) -> None:
    status, _, err = say("run:1", "run:2", "--store", "elsewhere.db")
    assert status == 2 and "not in elsewhere.db" in err


# --- what is refused


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run:1", "tiny.yml"], "run:1 is a stored run, tiny.yml is a model: compare like with like"),
        (["tiny.yml", "folder"], "tiny.yml is a model, folder is a build of farm: compare like with like"),
        (["tiny.yml", "tiny.yml", "tiny.yml"], "are models themselves; leave it out"),
        (["folder", "folder"], "MODEL is missing: what shall the builds folder and folder run?"),
        (["folder", "folder", "tiny.yml"], "/folder: no checkout of farm (farm/__init__.py is missing)"),
        (["no-such-branch", "HEAD", "tiny.yml"], "no-such-branch: no file, folder, baseline or commit of"),
        (["none.yml", "tiny.yml"], "none.yml"),
        (["tiny.yml", "tiny.yml", "--turns", "4"], "--turns"),
        (["tiny.yml"], "Missing argument 'B'"),
    ],
)
def test_what_is_refused(say: CallFarm, tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "folder").mkdir()
    status, out, err = say(*arguments)
    assert (status, out) == (2, "") and text in err and err.count("\n") == 1
    assert kept() == []


def test_a_name_is_a_baseline_before_it_is_a_branch(say: CallFarm) -> None:
    with Store.open() as store:
        store.set_baseline("main", store.begin("nightly", "farm nightly"))
    status, _, err = say("main", "HEAD")
    assert status == 2 and "main is a stored run, HEAD is a build of farm" in err


def test_no_unit(say: CallFarm) -> None:
    status, _, err = say("tiny.yml", "tiny.yml", "--soc", "sdm845")
    assert status == 3 and "--soc sdm845: no such unit" in err


# --- what is measured


@pytest.mark.slow
@pytest.mark.opencl
def test_two_models_are_measured_printed_and_kept(say: CallFarm) -> None:
    Path("b.yml").write_text(deployment_text(runtime="cpu+gpu"))
    status, out, err = say("tiny.yml", "b.yml", "--turns", "8", "--margin", "90", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"], row["model"]) == (0, "ok", "tiny"), err
    assert kept() == [row]
    assert CompareRow.model_validate(row).margin_percent == 90
    with Store.open() as store:
        (run,) = store.runs()
    assert (run.name, run.command, run.state) == (
        "compare",
        "farm compare tiny.yml b.yml --turns 8 --margin 90 --json",
        "finished",
    )


def rows_then(error: BaseException) -> Any:
    """A job that gives a row and then ends so."""

    def job(*_: Any) -> Iterator[CompareRow]:
        names: dict[str, Any] = {
            "unit": "u",
            "soc": "s",
            "device_model": "d",
            "library": "l",
            "runtime": "gpu",
            "status": "ok",
        }
        yield CompareRow(model="first", **names)
        raise error

    return job


def test_an_interruption_keeps_the_rows_before_it(say: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_command, "compare_job", rows_then(KeyboardInterrupt()))
    status, out, err = say("tiny.yml", "tiny.yml")
    assert (status, out) == (130, "")
    assert err.endswith(
        "interrupted; the turns that were measured are kept below build/, the same command goes on from them\n"
    )
    assert [row["model"] for row in kept()] == ["first"]
    with Store.open() as store:
        assert store.runs()[0].state == "interrupted"


class TestAgainstItself:
    @pytest.mark.parametrize("words", [("tiny.yml", "other.yml"), ("run:1", "run:1")])
    def test_two_things_are_no_comparison_of_one_with_itself(
        self, say: CallFarm, own_folder: Path, words: tuple[str, str]
    ) -> None:
        (own_folder / "other.yml").write_text((own_folder / "tiny.yml").read_text())
        status, _, err = say(*words, "--repeat", "2")
        assert status == 2 and "one file or build as A and B" in err

    @pytest.mark.slow
    @pytest.mark.opencl
    def test_it_tells_how_often_the_interval_covers_one(self, say: CallFarm) -> None:
        status, out, _ = say(
            "tiny.yml", "tiny.yml", "--soc", "host", "--runtime", "gpu", "--turns", "8", "--repeat", "3"
        )
        assert status in (0, 1)  # on a busy machine a difference may be told
        first = out.splitlines()[0]
        assert (
            first.startswith("tiny on host (gpu): ") and " of 3 intervals cover 1 " in first and "median width" in first
        )
        assert len([line for line in out.splitlines() if line.startswith("tiny ") and " | " in line]) == 3
        assert len({row["settings"]["seed"] for row in kept()}) == 3
