"""Which commits lie between two, and what each becomes."""

from pathlib import Path

import pytest

from farm.jobs.bisect.commits import EngineVersions, ModelCommits, commits_between
from runtime.errors import BuildError, ConfigError
from tests.farm.jobs.bisect.repositories import git, model_repository


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return model_repository(tmp_path / "models", 4, 2)


def test_commits_come_in_order_with_both_ends(root: Path) -> None:
    found = commits_between(root, "HEAD~3", "main")
    assert [ModelCommits(root, Path()).subject(commit) for commit in found] == [
        f"number {number}" for number in range(4)
    ]


@pytest.mark.slow
def test_commits_of_merged_branches_count_as_their_merge(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side", "HEAD~2")
    (root / "side.txt").touch()
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "aside")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merged", "side")
    found = [ModelCommits(root, Path()).subject(commit) for commit in commits_between(root, "HEAD~3", "main")]
    assert found == ["number 1", "number 2", "number 3", "merged"] or found == ["number 0", *found[1:]]
    assert "aside" not in found


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("main", "main", "are the same commit"),
        ("main", "HEAD~1", "GOOD must be the older"),
        ("nothing", "main", "nothing: no file, folder, baseline or commit"),
    ],
)
def test_ends_that_do_not_fit(root: Path, good: str, bad: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        commits_between(root, good, bad)


def test_a_commit_is_built_in_a_checkout_of_its_own(root: Path) -> None:
    commits = ModelCommits(root, Path("made.yml"), "cp tiny.yml made.yml")
    made = commits.at(git(root, "rev-parse", "HEAD~3")).source.path
    assert "1,3,8,8" in made.read_text() and root not in made.parents
    assert git(root, "status", "--porcelain") == ""


def test_a_commit_is_made_once(root: Path) -> None:
    commits = ModelCommits(root, Path("tiny.yml"), "sh -c 'echo built >> built.txt'")
    commit = git(root, "rev-parse", "HEAD")
    assert commits.at(commit) == commits.at(commit)
    assert (commits.at(commit).source.path.parent / "built.txt").read_text() == "built\n"


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        ("sh -c 'echo no luck >&2; exit 3'", BuildError, "exit status 3 in .*: no luck"),
        ("no-such-program", ConfigError, "--build no-such-program: cannot be run"),
    ],
)
def test_a_build_that_fails(root: Path, command: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ModelCommits(root, Path("tiny.yml"), command).at(git(root, "rev-parse", "HEAD"))


def test_a_commit_without_the_model(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"other\.yml"):
        ModelCommits(root, Path("other.yml")).at(git(root, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("1.2", "1.9", "onnxruntime 1.9 has no wheels for this Python; the newest are 1.1, 1.2, 1.10"),
        ("1.10", "1.2", "onnxruntime 1.10 is not older than 1.2: GOOD must be the older of the two"),
        ("new", "1.2", "onnxruntime==new: write a version as 1.31.0"),
    ],
)
def test_versions_of_an_engine_are_those_with_wheels(
    monkeypatch: pytest.MonkeyPatch, good: str, bad: str, problem: str
) -> None:
    monkeypatch.setattr("farm.jobs.bisect.commits.wheel_versions", lambda *_: ["1.1", "1.2", "1.10"])
    versions = EngineVersions("onnxruntime:session.a=1", Path("tiny.yml"))
    assert versions.between("1.1", "1.10") == ["1.1", "1.2", "1.10"]
    assert versions.subject("1.2") == "onnxruntime==1.2:session.a=1"
    with pytest.raises(ConfigError) as raised:
        versions.between(good, bad)
    assert problem in str(raised.value)
    with pytest.raises(ConfigError, match="farmrt is of this farm"):
        EngineVersions("farmrt", Path("tiny.yml")).between("1.1", "1.2")
