"""`farm bisect` on the command line."""

import json
from pathlib import Path

import pytest

from farm.jobs.bisect import job
from tests.farm.conftest import CallFarm
from tests.farm.jobs.bisect.repositories import git, model_repository
from tests.farm.jobs.bisect.test_job import Simulated


@pytest.fixture
def root(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = model_repository(own_folder / "models", 9, 6)
    hashes = git(folder, "rev-list", "--reverse", "main").split()
    simulated = Simulated({commit: number for number, commit in enumerate(hashes)}, lambda at: 1 + 0.2 * (at >= 6))
    monkeypatch.setattr(job, "compare_job", simulated)
    return folder


def call(farm: CallFarm, *more: str, good: str = "HEAD~8", bad: str = "main") -> tuple[int, str, str]:
    return farm("bisect", good, bad, "tiny.yml", "--repository", "models", "--device", "host", *more)


def test_the_commit_is_told_with_its_subject(farm: CallFarm, root: Path) -> None:
    status, out, err = call(farm)
    assert status == 0 and "found:\n" in out
    assert f"  {git(root, 'rev-parse', 'HEAD~2')[:12]} number 6\n" in out
    told = [line for line in err.splitlines() if ": good" in line or ": bad" in line]
    assert 2 <= len(told) <= 5 and all("%" in line for line in told)


@pytest.mark.slow
def test_json_has_rows_and_suspects(farm: CallFarm, root: Path) -> None:
    status, out, _ = call(farm, "--json")
    document = json.loads(out)
    assert status == 0 and document["status"] == "ok"
    assert [each["subject"] for each in document["suspects"]] == ["number 6"]
    assert document["ratio_ci"][0] < 1.2 < document["ratio_ci"][1] and document["skipped"] == []
    assert all(row["job"] == "compare" for row in document["rows"])


@pytest.mark.slow
def test_nothing_to_bisect_is_exit_status_1(farm: CallFarm, root: Path) -> None:
    status, out, _ = call(farm, bad="HEAD~4")
    assert status == 1 and "nothing to bisect" in out


@pytest.mark.slow
def test_a_second_call_measures_only_the_last_duet_again(farm: CallFarm, root: Path) -> None:
    call(farm)
    _, first, err = call(farm)
    assert "found:" in first and not err.strip()
    _, _, fresh = call(farm, "--fresh")
    assert len(fresh.splitlines()) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "other"), "no model other; there are: tiny"),
        (("--runtime", "gpu"), "tiny runs on cpu, not on gpu"),
        (("--build", "no-such-program x"), "--build no-such-program: cannot be run"),
    ],
)
def test_mistakes_are_one_line(farm: CallFarm, root: Path, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = call(farm, *arguments)
    assert status == 2 and out == "" and message in err and len(err.splitlines()) == 1


def test_build_without_a_repository(farm: CallFarm, own_folder: Path) -> None:
    status, _, err = farm("bisect", "a", "b", "tiny.yml", "--build", "make")
    assert status == 2 and "--repository FOLDER is missing" in err
