"""What a bisection has measured, in a file, so that an interrupted one goes on and a finished one is told again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from farm import atomic_file
from farm.rows.record import Record
from farm.workspace import BUILD_FOLDER
from runtime.errors import FormatError

FOLDER = BUILD_FOLDER / "bisect"


class CommitTimes(Record):
    """A commit against the good end: milliseconds of each turn, in pairs, or why there are none.

    `is_passing`: the problem is one of the unit (heat, other work), which another call may not meet.
    """

    commit: str
    good_ms: tuple[float, ...] = ()
    commit_ms: tuple[float, ...] = ()
    problem: str = ""
    is_passing: bool = False

    def with_more(self, other: CommitTimes) -> CommitTimes:
        """The pairs of both; of problems the newer one's."""
        good_ms, commit_ms = (*self.good_ms, *other.good_ms), (*self.commit_ms, *other.commit_ms)
        return other.model_copy(update={"good_ms": good_ms, "commit_ms": commit_ms})


class BisectState(Record):
    """All trials of one bisection; `about` says of which."""

    about: tuple[str, ...]
    trials: dict[str, CommitTimes] = Field(default_factory=dict)

    def having(self, trial: CommitTimes) -> BisectState:
        """Returns a state with one more trial, or with more pairs of a trial that it has."""
        before = self.trials.get(trial.commit)
        return BisectState(
            about=self.about, trials={**self.trials, trial.commit: before.with_more(trial) if before else trial}
        )

    def without_passing(self) -> BisectState:
        """Returns a state without the commits whose problem may have passed, so that they are measured again."""
        trials = {commit: trial for commit, trial in self.trials.items() if not trial.is_passing}
        return BisectState(about=self.about, trials=trials)


def path_of(about: Sequence[str]) -> Path:
    """Returns the path of a bisection's state file."""
    name = hashlib.sha256(json.dumps(list(about)).encode()).hexdigest()[:16]
    return FOLDER / f"{name}.json"


def read(about: Sequence[str]) -> BisectState:
    """The state so far, empty where there is none; FormatError where the file is damaged."""
    path = path_of(about)
    try:
        state = BisectState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return BisectState(about=tuple(about))
    except (ValidationError, ValueError):
        raise FormatError(f"{path}: damaged; --fresh begins anew") from None
    if state.about != tuple(about):
        raise FormatError(f"{path}: of another bisection; --fresh begins anew")
    return state


def write(state: BisectState) -> None:
    """Keeps the state."""
    path = path_of(state.about)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_file.write(path, state.model_dump_json(indent=1).encode())


def forget(about: Sequence[str]) -> None:
    """Deletes the state."""
    path_of(about).unlink(missing_ok=True)
