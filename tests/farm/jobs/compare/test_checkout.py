"""Commits of farm's repository as worktrees, and folders with a checkout."""

from pathlib import Path

import pytest

from farm.jobs.compare import checkout
from runtime.errors import ConfigError
from tests.farm.jobs.bisect.repositories import git


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits, the first with a tag; farm runs from there."""
    folder = tmp_path / "repository"
    (folder / "farm").mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / ".gitignore").write_text("build/\n")
    for text in ("one", "two"):
        (folder / "farm" / "__init__.py").write_text(f'"""{text}"""\n')
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", text)
    git(folder, "tag", "before", "HEAD~1")
    monkeypatch.setattr("farm.__file__", str(folder / "farm" / "__init__.py"))
    return folder


def test_a_commit_becomes_a_worktree_once(root: Path) -> None:
    assert checkout.repository() == root
    commit = checkout.commit_of(root, "before")
    assert commit == git(root, "rev-parse", "HEAD~1")
    found = checkout.at_commit(root, commit)
    assert found.folder == root / "build/compare" / commit[:12]
    assert (found.folder / "farm/__init__.py").read_text() == '"""one"""\n'
    assert (found.commit, found.changed, str(found)) == (commit, False, commit[:12])
    (found.folder / "build").mkdir()
    assert checkout.at_commit(root, commit) == found and (found.folder / "build").is_dir()
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("ref", ["main", "HEAD", "before"])
def test_what_names_a_commit(root: Path, ref: str) -> None:
    assert checkout.commit_of(root, ref) == git(root, "rev-parse", ref)


@pytest.mark.parametrize("ref", ["nothing", "-h", "--all", "", "HEAD:farm", "a b", "\x1b[31m", "main..before"])
def test_what_does_not(root: Path, ref: str) -> None:
    with pytest.raises(
        ConfigError, match=r"no file, folder, baseline or commit of .*repository has this name"
    ) as error:
        checkout.commit_of(root, ref)
    assert str(error.value).isprintable()


def test_a_worktree_that_was_left_half_is_made_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = checkout.commit_of(root, "main")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "touch", interrupted)
        checkout.at_commit(root, commit)
    folder = root / "build/compare" / commit[:12]
    (folder / "farm/__init__.py").unlink()
    assert checkout.at_commit(root, commit).folder == folder and (folder / "farm/__init__.py").is_file()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("alter", ["farm/__init__.py", "farm/new.py"])
def test_a_worktree_that_somebody_altered_is_left_alone(root: Path, alter: str) -> None:
    commit = checkout.commit_of(root, "main")
    path = checkout.at_commit(root, commit).folder / alter
    path.write_text("altered")
    with pytest.raises(ConfigError, match="no longer what the commit holds; name the folder to compare it, or remove"):
        checkout.at_commit(root, commit)
    assert path.read_text() == "altered"


def test_a_worktree_in_which_somebody_went_to_another_commit(root: Path) -> None:
    commit = checkout.commit_of(root, "main")
    git(checkout.at_commit(root, commit).folder, "checkout", "--quiet", "--detach", "before")
    with pytest.raises(ConfigError, match="no longer what the commit holds"):
        checkout.at_commit(root, commit)


@pytest.mark.slow
def test_a_folder_that_was_removed_by_hand_is_made_anew(root: Path) -> None:
    commit = checkout.commit_of(root, "main")
    folder = checkout.at_commit(root, commit).folder
    folder.rename(root / "build/elsewhere")
    assert checkout.at_commit(root, commit).folder == folder and (folder / "farm").is_dir()


def test_a_folder_says_its_commit_and_whether_it_was_changed(root: Path) -> None:
    found = checkout.in_folder(root)
    assert (found.folder, found.commit, found.changed) == (root, git(root, "rev-parse", "HEAD"), False)
    (root / "notes.txt").write_text("not a source")
    assert not checkout.in_folder(root).changed
    (root / "farm" / "new.py").write_text("")
    found = checkout.in_folder(root)
    assert found.changed and str(found) == f"{found.commit[:12]}, with changes"


def test_a_folder_without_git(root: Path, tmp_path: Path) -> None:
    (tmp_path / "copy/farm").mkdir(parents=True)
    (tmp_path / "copy/farm/__init__.py").write_text("")
    found = checkout.in_folder(tmp_path / "copy")
    assert (found.commit, found.changed, str(found)) == ("", False, "not under git")


def test_a_folder_without_farm(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no checkout of farm \(farm/__init__.py is missing\)"):
        checkout.in_folder(tmp_path)


def test_a_farm_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.__file__", str(tmp_path / "farm" / "__init__.py"))
    with pytest.raises(ConfigError, match=f"farm runs from {tmp_path}, which is no git repository"):
        checkout.repository()


def test_a_farm_inside_of_another_repository(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "vendor/farm").mkdir(parents=True)
    monkeypatch.setattr("farm.__file__", str(root / "vendor/farm/__init__.py"))
    with pytest.raises(ConfigError, match="is only a part of the repository"):
        checkout.repository()


def test_without_git(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="git is not installed; without it only folders can be compared"):
        checkout.repository()


def test_the_environment_of_a_hook_does_not_mislead(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert checkout.repository() == root
