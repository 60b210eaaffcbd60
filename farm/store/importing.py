"""Takes JSON lines into a store: runs that it has not, rows that it has not, once each."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Connection, select

from farm.store import schema
from farm.store.adding import add_rows, add_run
from farm.store.lines import AnyLine, BareRow, BaselineLine, ProgressLine, RowLine, RunData, RunLine, parse
from farm.store.statements import insert_new
from runtime.errors import FormatError


@dataclasses.dataclass
class Taken:
    """What came of a file: new runs, new rows, rows that were there already, and the numbers of damaged lines."""

    runs: int = 0
    rows: int = 0
    known: int = 0
    damaged: list[int] = dataclasses.field(default_factory=list)


class Taking:
    """Takes the lines of one file into a store, in the caller's transaction."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self.taken = Taken()
        self._connection, self._path = connection, path
        self._runs: dict[str, int] = {}  # uid -> number
        self._new: set[str] = set()
        self._of_bare_rows = ""

    def take(self, lines: Iterable[bytes]) -> Taken:
        """Takes all lines but damaged ones, which are told. Raises FormatError for those of another version."""
        for number, text in enumerate(lines, 1):
            try:
                line = parse(text)
            except FormatError as error:
                raise FormatError(f"{self._path}:{number}: {error}; nothing was taken over") from None
            if not line or not self._take_line(line):
                self.taken.damaged.append(number)
        return self.taken

    def _take_line(self, line: AnyLine | BareRow) -> bool:
        """False where the line's run is unknown."""
        if isinstance(line, RunLine):
            self._take_run(line.run)
        elif isinstance(line, BareRow):
            return self._take_row(self._run_of_bare_rows(str(line.row["time"])), line)
        elif isinstance(line, RowLine | ProgressLine | BaselineLine):
            return line.of in self._runs and self._take_part(line)
        return True

    def _take_part(self, line: RowLine | ProgressLine | BaselineLine) -> bool:
        run = self._runs[line.of]
        if isinstance(line, RowLine):
            return self._take_row(line.of, line)
        if isinstance(line, BaselineLine):
            self._connection.execute(
                insert_new(self._connection, schema.baselines), [{"name": line.baseline, "run_id": run}]
            )
        elif line.of in self._new:  # notes have no identity: a run that is there has its own
            self._connection.execute(schema.progress.insert().values(run_id=run, key=line.key, data=line.progress))
        return True

    def _take_row(self, uid: str, line: RowLine | BareRow) -> bool:
        new = add_rows(self._connection, self._runs[uid], uid, [line.row])
        self.taken.rows += new
        self.taken.known += 1 - new
        return True

    def _take_run(self, run: RunData) -> None:
        known = self._connection.execute(select(schema.runs.c.id).where(schema.runs.c.uid == run.uid)).scalar()
        if known is None:
            known = add_run(self._connection, run)
            self._new.add(run.uid)
            self.taken.runs += 1
        self._runs[run.uid] = known

    def _run_of_bare_rows(self, time: str) -> str:
        """The run of a file of rows alone: always the same for the same file, so that they are taken once."""
        if not self._of_bare_rows:
            self._of_bare_rows = uid = hashlib.sha256(self._path.read_bytes()).hexdigest()[:32]
            self._take_run(
                RunData(uid=uid, name=self._path.name, command=f"rows of {self._path}", started=time, ended=time)
            )
        return self._of_bare_rows


def take_file(connection: Connection, path: Path) -> Taken:
    """Takes a file of JSON lines into a store, in the caller's transaction; see Taking."""
    with path.open("rb") as lines:
        return Taking(connection, path).take(lines)
