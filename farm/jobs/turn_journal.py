"""Keeps the turns of a comparison of two or more as they are measured: one that is interrupted goes on where it was.

A file of JSON lines, a turn each, named by all that a turn follows from. It lies in the build folder until its
comparison has ended; a line that a killed process left incomplete is measured again.
"""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from farm.rows.nightly import Block
from farm.rows.record import Record
from farm.rows.status import Status
from runtime.errors import JobError, unwritten

GOES_ON = (Status.DEVICE_LOST, Status.KILLED, Status.NO_ROOM)  # rows whose comparison the next call goes on with


class KeptTurn(Record):
    """A turn: what it was measured of, which of the comparison it is, and the blocks that it gave."""

    key: str
    seed: int
    number: int
    blocks: tuple[Block, ...]


class TurnJournal:
    """The turns of one comparison: of one model, in one runtime, on one unit.

    Args:
        path: the file; it and its folder are made.
        key: names all that a turn follows from but the seed; turns of another key are left alone.
        seed: decides who begins a turn, unless there are turns already, which go on with their own.
    """

    def __init__(self, path: Path, key: str, seed: int) -> None:
        self._path, self._key = path, key
        self._turns = _in_order(turn for turn in _kept(path) if turn.key == key)
        self.seed = self._turns[0].seed if self._turns else seed

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def turns(self) -> list[tuple[Block, ...]]:
        """Returns the blocks of each turn."""
        return [turn.blocks for turn in self._turns]

    @property
    def blocks(self) -> list[Block]:
        """Returns all blocks in the order of their turns."""
        return [block for turn in self.turns for block in turn]

    def add(self, *blocks: Block) -> None:
        """Appends the next turn; raises JobError where it cannot be written."""
        turn = KeptTurn(key=self._key, seed=self.seed, number=len(self), blocks=blocks)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:  # the first line break ends what a killed process left
                file.write(b"\n" + turn.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise unwritten(f"{self._path}: cannot be written", error, JobError) from None
        self._turns.append(turn)


class TurnFiles:
    """The journals of a job; `fresh`: what earlier jobs left there does not count."""

    def __init__(self, fresh: bool) -> None:
        self._fresh = fresh
        self._used: set[Path] = set()

    def use(self, path: Path) -> Path:
        """A journal that is used from now on."""
        if self._fresh and path not in self._used:
            path.unlink(missing_ok=True)
        self._used.add(path)
        return path

    def remove(self) -> None:
        """Forgets all turns: their rows are there."""
        for path in self._used:
            path.unlink(missing_ok=True)


def _kept(path: Path) -> list[KeptTurn]:
    turns = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            turns.append(KeptTurn.model_validate_json(line))
        except ValidationError:
            continue
    return turns


def _in_order(turns: Iterable[KeptTurn]) -> list[KeptTurn]:
    """The turns from the first one on, as far as none is missing."""
    found: list[KeptTurn] = []
    for turn in turns:
        if turn.number == len(found) and (not found or turn.seed == found[0].seed):
            found.append(turn)
    return found
