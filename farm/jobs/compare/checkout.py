"""Checkouts of farm itself: any commit of its repository as a worktree, or a folder that somebody names.

Worktrees lie in `build/compare/<commit>` of the repository and stay there, each with the farmrt that it built;
`git worktree remove --force build/compare/<commit>` makes room.
"""

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

from filelock import FileLock

import farm
from farm.safe_text import word
from runtime.errors import ConfigError

WORKTREES = Path("build/compare")
SOURCES = ("farm", "runtime", "tuner")
SHORT = 12
GIT_S = 300.0
MAX_ERROR = 300


@dataclasses.dataclass(frozen=True)
class Checkout:
    """A folder with farm's sources; `commit` is empty outside of git, `changed` tells of changes since the commit."""

    folder: Path
    commit: str = ""
    changed: bool = False

    def __str__(self) -> str:
        commit = self.commit[:SHORT] or "not under git"
        return f"{commit}, with changes" if self.changed else commit


class GitError(ConfigError):
    """git answered with an error; the text is its own."""


def repository() -> Path:
    """The repository that farm runs from; ConfigError where it was installed without one."""
    folder = Path(farm.__file__).resolve().parents[1]
    try:
        top = Path(git(folder, "rev-parse", "--show-toplevel"))
    except GitError as error:
        raise ConfigError(f"farm runs from {folder}, which is no git repository: {error}; name a folder") from None
    if top != folder:
        raise ConfigError(f"farm runs from {folder}, which is only a part of the repository {top}; name a folder")
    return folder


def commit_of(root: Path, ref: str) -> str:
    """The commit that a branch, tag or abbreviated hash names; ConfigError where there is none."""
    try:
        return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except GitError:
        raise ConfigError(f"{word(ref)}: no file, folder, baseline or commit of {root} has this name") from None


def at_commit(root: Path, commit: str) -> Checkout:
    """A worktree of a commit, made where it is not there yet or was left half.

    Raises ConfigError where somebody has altered it since: what it holds may be all that there is of their work.
    """
    folder = root / WORKTREES / commit[:SHORT]
    add_worktree(root, commit, folder)
    checkout = in_folder(folder)
    if checkout.changed or checkout.commit != commit:
        raise ConfigError(f"{folder}: no longer what the commit holds; name the folder to compare it, or remove it")
    return checkout


def add_worktree(root: Path, commit: str, folder: Path) -> None:
    """Makes a worktree of a commit in a folder, where it is not there yet or was left half."""
    made = folder.with_name(f".{folder.name}.made")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not (made.exists() and folder.is_dir()):
            shutil.rmtree(folder, ignore_errors=True)
            git(root, "worktree", "prune")
            git(root, "worktree", "add", "--quiet", "--detach", str(folder), commit)
            made.touch()


def in_folder(folder: Path) -> Checkout:
    """The checkout in a folder; ConfigError where it holds no farm."""
    folder = folder.resolve()
    if not (folder / "farm" / "__init__.py").is_file():
        raise ConfigError(f"{folder}: no checkout of farm (farm/__init__.py is missing)")
    try:
        return Checkout(folder, git(folder, "rev-parse", "HEAD"), _is_changed(folder))
    except GitError:
        return Checkout(folder)


def _is_changed(folder: Path) -> bool:
    """Whether sources differ from the commit; new files count, what else lies there does not."""
    return bool(git(folder, "status", "--porcelain", "--", *SOURCES))


def git(folder: Path, *arguments: str) -> str:
    """What git prints, without the line end. Raises GitError, and ConfigError where there is no git."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=GIT_S)
    except FileNotFoundError:
        raise ConfigError("git is not installed; without it only folders can be compared") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"git {arguments[0]} did not end within {GIT_S:g} s in {folder}") from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").removeprefix("fatal: ")
        raise GitError(word(message, MAX_ERROR) or f"exit status {done.returncode}")
    return done.stdout.decode(errors="replace").strip()
