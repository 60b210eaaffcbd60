"""`farm baseline`: names for stored runs."""

import functools
import json
from pathlib import Path

import pytest

from farm.store import Store
from tests.farm.conftest import CallFarm
from tests.farm.rows.nightly_rows import nightly_case


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(own_folder: Path) -> None:
    """Stores and reports are made there."""


@pytest.fixture
def say(farm: CallFarm) -> CallFarm:
    """Runs `farm baseline`."""
    return functools.partial(farm, "baseline")


@pytest.fixture
def runs() -> None:
    """Two finished nights, one that was interrupted, and a run that measured no cases."""
    with Store.open() as store:
        for name, rows, state in (
            ("nightly", [nightly_case()], "finished"),
            ("nightly", [nightly_case(seed=2)], "finished"),
            ("nightly", [nightly_case(seed=3)], "interrupted"),
            ("tune", [], "finished"),
        ):
            run = store.begin(name, f"farm {name}", commit="c0ffee" * 6)
            store.add(run, rows)
            store.end(run, state)


def baselines() -> dict[str, int]:
    with Store.open() as store:
        return store.baselines()


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("words", "run"), [([], 2), (["latest"], 2), (["1"], 1), (["run:1"], 1), (["4"], 4)])
def test_a_run_gets_a_name(say: CallFarm, words: list[str], run: int) -> None:
    status, out, err = say("set", "release-1.2", *words)
    assert (status, err) == (0, "") and out.startswith(f"release-1.2: run {run}, farm ")
    assert baselines() == {"release-1.2": run}


@pytest.mark.usefixtures("runs")
def test_a_name_moves(say: CallFarm) -> None:
    say("set", "good", "1")
    assert say("set", "good", "2")[1].endswith(" (was run 1)\n")
    assert "was" not in say("set", "good", "2")[1]
    assert baselines() == {"good": 2}


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("run", ["5", "x", "-1", "1.0", "run:", "latest2", "99999999999999999999999"])
def test_an_unknown_run_is_told_with_the_newest_ones(say: CallFarm, run: str) -> None:
    status, out, err = say("set", "good", "--", run)
    assert (status, out) == (2, "") and err.startswith(f"error: run {run.removeprefix('run:')}: not in reports/farm.db")
    assert "; the newest are 4 (tune, 20" in err and err.count("\n") == 1
    assert baselines() == {}


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "\x1b[31m", "x" * 101, "12", "latest", "series", "last_good"])
def test_a_name_that_cannot_be_one(say: CallFarm, name: str) -> None:
    status, out, err = say("set", name, "1")
    assert (status, out) == (2, "") and err.startswith("error: baseline") and err.count("\n") == 1
    assert err[:-1].isprintable() and baselines() == {}


def test_no_store_is_made(say: CallFarm) -> None:
    for words in (["list"], ["set", "good"], ["remove", "good"]):
        status, _, err = say(*words)
        assert status == 2 and "no store there" in err
    assert not Path("reports").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_all_names_are_listed(say: CallFarm) -> None:
    assert say("list")[1] == "none yet; `farm baseline set NAME` names the newest run\n"
    say("set", "good", "1")
    say("set", "better", "2")
    _, out, _ = say("list")
    assert [line.split(" | ")[:2] for line in out.splitlines()[2:]] == [["better", "  2"], ["good  ", "  1"]]
    found = json.loads(say("list", "--json")[1])["baselines"]
    assert [(each["name"], each["run"], each["commit"]) for each in found] == [
        ("better", 2, "c0ffee" * 6),
        ("good", 1, "c0ffee" * 6),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_a_name_is_taken_back(say: CallFarm) -> None:
    say("set", "good", "1")
    assert say("remove", "good") == (0, "good: removed; its run stays\n", "")
    assert baselines() == {}
    status, _, err = say("remove", "good")
    assert status == 2 and "baseline good: reports/farm.db has none of this name" in err


@pytest.mark.usefixtures("runs")
def test_another_store(say: CallFarm) -> None:
    status, _, err = say("set", "good", "--store", "elsewhere.db")
    assert status == 2 and "elsewhere.db: no store there" in err
