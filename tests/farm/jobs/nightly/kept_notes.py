"""A notebook in memory."""

from collections.abc import Sequence

from farm.rows.duet import DuetPair
from farm.rows.nightly import Block
from farm.rows.series import Case


class KeptNotes:
    """Remembers what it is given; a run begins with `before`."""

    def __init__(self, before: Sequence[Block] = ()) -> None:
        self._before = before
        self.kept: list[Block | DuetPair] = []

    def note(self, case: Case, block: Block) -> None:
        self.kept.append(block)

    def note_pair(self, case: Case, pair: DuetPair) -> None:
        self.kept.append(pair)

    def blocks(self, case: Case) -> Sequence[Block]:
        return self._before

    def pairs(self, case: Case) -> Sequence[DuetPair]:
        return ()
