"""`farm report`: of the newest night, or of one that is named; what it refuses."""

import functools
import json
from pathlib import Path

import pytest

from farm.rows.status import Status
from farm.store import Store
from tests.farm.conftest import CallFarm
from tests.farm.rows.nightly_rows import nightly_case


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(own_folder: Path) -> None:
    """Stores and reports are made there."""


@pytest.fixture
def say(farm: CallFarm) -> CallFarm:
    """Runs `farm report`."""
    return functools.partial(farm, "report")


@pytest.fixture
def nights() -> None:
    """A night that was good, and one whose unit went away."""
    lost = nightly_case(seed=2, blocks=(), status=Status.DEVICE_LOST, reason="unplugged")
    with Store.open() as store:
        for row in (nightly_case(), lost):
            run = store.begin("My Lab", "farm nightly lab.yml")
            store.add(run, [row])
            store.end(run)


@pytest.mark.slow
@pytest.mark.usefixtures("nights")
def test_the_newest_night(say: CallFarm) -> None:
    status, out, err = say()
    sentence, index = out.splitlines()
    assert (status, err) == (0, "")
    assert sentence == "u failed: device_lost: unplugged"
    assert sentence in Path(index).read_text()
    assert Path(index).parent.parent == Path("reports")


@pytest.mark.usefixtures("nights")
@pytest.mark.parametrize("name", ["1", "run:1"])
def test_a_night_by_its_number(say: CallFarm, name: str) -> None:
    status, out, _ = say("--run", name, "-o", "there/report", "--format", "junit,json", "--json")
    answer = json.loads(out)
    assert (status, answer["outcome"], answer["index"]) == (0, "nothing worse", "there/report")
    assert answer["files"] == ["junit.xml", "night.json"]
    assert json.loads(Path("there/report/night.json").read_text())["run"]["id"] == 1


@pytest.mark.usefixtures("nights")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--run", "7"], "run 7: not in"),
        (["--format", "html,pdf"], "unknown format 'pdf'; there are html, markdown, junit, json, trace"),
        (["--baseline", "release"], "baseline release: there is none of this name"),
        (["-o", "."], "holds something else than a report"),
    ],
)
def test_what_is_refused(say: CallFarm, arguments: list[str], told: str) -> None:
    status, out, err = say(*arguments)
    assert (status, out) == (2, "")
    assert told in err and len(err.splitlines()) == 1
    assert sorted(path.name for path in Path().iterdir()) == ["reports"]


def test_without_a_store(say: CallFarm) -> None:
    status, _, err = say()
    assert status == 2 and "no store there" in err
