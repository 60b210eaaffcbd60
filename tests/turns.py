"""What takes turns in tests: a share of it by date, and what changed in the day before the last commit.

So do the files with slow tests in `make test` (`pytest --turns`): a fifth of them, by FARM_TURN, else by date, and
those that changed or whose namesake did: `tests/farm/cluster/test_units.py` is that of `farm/cluster/**/units.py`.
FARM_EXHAUSTIVE=1 takes all.
"""

import datetime
import os
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

DAYS = 1
ROOT = Path(__file__).parents[1]
FIFTHS = 5
# Their cases take turns by themselves (`opencl.turn`), and `.ci/run` asks for all cases of the kernels that changed.
ALWAYS = frozenset(f"tests/runtime/test_kernels_{kind}.py" for kind in ("buffer", "image_table"))
T = TypeVar("T")


def today() -> int:
    """The turn that is asked for, or that of today."""
    return int(os.environ.get("FARM_TURN") or time.time() // 86400)


def share(things: Sequence[T], changed: Collection[T], turn: int, parts: int) -> list[T]:
    """Those whose turn it is, one part of so many, and those that changed.

    At most two parts, since a run must end in time: of very many that changed, the coming turns take the rest.
    """
    of_turn = [each for number, each in enumerate(things) if number % parts == turn % parts]
    of_change = [each for each in things if each in changed and each not in of_turn]
    first = turn % max(1, len(of_change))
    wanted = [*of_turn, *of_change[first:], *of_change[:first]][: -(-2 * len(things) // parts)]
    return [each for each in things if each in wanted]


def chosen(files: Iterable[str], changed: Iterable[str], turn: int) -> set[str]:
    """Those of the files of tests, as paths from the root, whose slow tests are run at this turn."""
    names, paths = sorted({*files} - ALWAYS), [PurePosixPath(path) for path in changed]
    return {*share(names, {name for name in names if _is_changed(PurePosixPath(name), paths)}, turn, FIFTHS), *ALWAYS}


def _is_changed(test: PurePosixPath, changed: Iterable[PurePosixPath]) -> bool:
    """Whether a file of tests, or its namesake in the folder that it tests, is among the changed ones."""
    folder, stem = test.parent.relative_to("tests"), test.stem.removeprefix("test_")
    return any(path == test or (path.stem == stem and path.is_relative_to(folder)) for path in changed)


def left_out(slow: Iterable[Path]) -> set[Path]:
    """Those of the files with slow tests whose turn it is not."""
    names = {path: path.relative_to(ROOT).as_posix() for path in slow}
    taken = chosen(names.values(), changed_paths(), today())
    return {path for path, name in names.items() if name not in taken}


def changed_paths(*folders: str) -> set[str]:
    """What changed in these folders (none: anywhere) in the day before the last commit; a file that only moved did not.

    Nothing where this is not a git repository.
    """
    try:
        last = datetime.datetime.fromisoformat(_git("log", "-1", "--format=%cI").strip())
        since = last - datetime.timedelta(days=DAYS)
        told = _git("log", f"--since={since.isoformat()}", "-M", "--format=", "--name-status", "--", *folders)
    except (OSError, subprocess.CalledProcessError):
        return set()
    lines = (line.split("\t") for line in told.splitlines())
    return {path for status, *_, path in lines if status not in ("R100", "D")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
