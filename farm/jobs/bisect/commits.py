"""The commits between two, and what is measured at each: a build of farm, a model of the user's repository.

Versions of an engine are commits, too: of its package, in the order in which they were published.
"""

import dataclasses
import functools
import hashlib
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from farm.config.deployment import Deployment
from farm.engines.registry import at_version, base_name, engine_named, named_engines
from farm.engines.wheels import own_python, wheel_versions
from farm.jobs.compare import checkout, contender
from farm.jobs.compare.contender import Contender
from farm.model import deployments
from farm.rows.compare import Side
from farm.safe_text import word
from farm.workspace import BUILD_FOLDER
from runtime.errors import BuildError, ConfigError, DeadlineError

BUILD_S = 3600.0
MAX_ERROR = 300
SHOWN_VERSIONS = 8


class Commits(Protocol):
    """A repository, and how a commit of it becomes something that can be measured."""

    @property
    def root(self) -> Path:
        """The repository's folder."""

    @property
    def settings(self) -> Sequence[str]:
        """What the result depends on beside the commits, such as the model's file and the command that makes it."""

    @property
    def noun(self) -> str:
        """What a commit is called, in the plural."""

    def between(self, good: str, bad: str) -> list[str]:
        """The commits from the good one to the bad one, both included; ConfigError where there are none."""

    def subject(self, commit: str) -> str:
        """What a commit says of itself."""

    def at(self, commit: str) -> Contender:
        """What is measured at a commit; raises BuildError, DeadlineError or ConfigError where there is nothing."""


@dataclasses.dataclass(frozen=True)
class _GitCommits:
    """Commits of a git repository."""

    root: Path

    noun: ClassVar[str] = "commits"

    def between(self, good: str, bad: str) -> list[str]:
        """See Commits."""
        return commits_between(self.root, good, bad)

    def subject(self, commit: str) -> str:
        """The first line of a commit's message."""
        return word(checkout.git(self.root, "log", "-1", "--format=%s", commit))


@dataclasses.dataclass(frozen=True)
class FarmCommits(_GitCommits):
    """Commits of farm itself, each with its own passes, kernels and farmrt; all run the same deployment file."""

    model_file: Path

    @property
    def settings(self) -> Sequence[str]:
        """The deployment file."""
        return (str(self.model_file.resolve()),)

    def at(self, commit: str) -> Contender:
        """The build of a commit."""
        sources = checkout.at_commit(self.root, commit)
        made = contender.build(str(sources.folder), deployments.of_path(self.model_file))
        return dataclasses.replace(made, side=made.side.model_copy(update={"name": commit[: checkout.SHORT]}))


@dataclasses.dataclass(frozen=True)
class ModelCommits(_GitCommits):
    """Commits of a repository of models, whose deployment file is there as it is, or is made by a command.

    `model_file` is relative to the repository; `build` runs in a checkout of each commit.
    """

    model_file: Path
    build: str = ""
    _made: dict[str, Contender] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def settings(self) -> Sequence[str]:
        """The deployment file and the command."""
        return (str(self.model_file), self.build)

    def at(self, commit: str) -> Contender:
        """The model of a commit, made the first time that it is asked for."""
        if commit not in self._made:
            self._made[commit] = self._make(commit)
        return self._made[commit]

    def _make(self, commit: str) -> Contender:
        folder = self._worktrees / commit[: checkout.SHORT]
        checkout.add_worktree(self.root, commit, folder)
        if self.build:
            _build(shlex.split(self.build), folder)
        source = deployments.of_path(folder / self.model_file)
        return Contender(Side(name=commit[: checkout.SHORT], kind="model", commit=commit), source)

    @property
    def _worktrees(self) -> Path:
        """Outside of the user's repository, and another folder for each."""
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[: checkout.SHORT]
        return (BUILD_FOLDER / "bisect" / name).resolve()


def _build(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=BUILD_S)
    except OSError as error:
        raise ConfigError(f"--build {command[0]}: cannot be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise DeadlineError(f"--build did not end within {BUILD_S:g} s in {folder}") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        said = word(lines[-1], MAX_ERROR) if lines else "it said nothing"
        raise BuildError(f"--build ended with exit status {done.returncode} in {folder}: {said}")


def commits_between(root: Path, good: str, bad: str) -> list[str]:
    """Hashes of the commits from the good one to the bad one, both included, along the first parents.

    Raises ConfigError where a name is no commit, or where the good one is no ancestor of the bad one.
    """
    first, last = checkout.commit_of(root, good), checkout.commit_of(root, bad)
    if first == last:
        raise ConfigError(f"{word(good)} and {word(bad)} are the same commit, {first[: checkout.SHORT]}")
    if checkout.git(root, "merge-base", first, last) != first:
        raise ConfigError(f"{word(good)} is no ancestor of {word(bad)}: GOOD must be the older of the two")
    between = checkout.git(root, "rev-list", "--reverse", "--first-parent", f"{first}..{last}").split()
    on_the_way = checkout.git(root, "rev-list", "--ancestry-path", f"{first}..{last}").split()
    kept = set(on_the_way)
    return [first, *(commit for commit in between if commit in kept)]


@dataclasses.dataclass(frozen=True)
class EngineVersions:
    """Versions of an engine's package that have wheels for this machine's Python; all run the same deployment file."""

    engine: str
    model_file: Path

    root: ClassVar[Path] = Path()
    noun: ClassVar[str] = "versions"

    @property
    def settings(self) -> Sequence[str]:
        """The engine with its options, and the deployment file."""
        return (self.engine, str(self.model_file.resolve()))

    def between(self, good: str, bad: str) -> list[str]:
        """See Commits."""
        named_engines([at_version(self.engine, version) for version in (good, bad)])
        package = getattr(engine_named(base_name(self.engine)), "package", "")
        versions = wheel_versions(package, own_python())
        for version in (good, bad):
            if version not in versions:
                known = ", ".join(versions[-SHOWN_VERSIONS:])
                raise ConfigError(f"{package} {word(version)} has no wheels for this Python; the newest are {known}")
        first, last = versions.index(good), versions.index(bad)
        if first >= last:
            raise ConfigError(f"{package} {good} is not older than {bad}: GOOD must be the older of the two")
        return versions[first : last + 1]

    def subject(self, commit: str) -> str:
        """The engine at that version."""
        return at_version(self.engine, commit)

    def at(self, commit: str) -> Contender:
        """The engine of a version."""
        return Contender(Side(name=commit, kind="engine"), self._source, engine=at_version(self.engine, commit))

    @functools.cached_property
    def _source(self) -> Deployment:
        return deployments.of_path(self.model_file)
