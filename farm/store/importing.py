"""Imports JSON lines into a store: only the runs and rows that it does not have yet."""

import dataclasses
import hashlib
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Connection, select, update

from farm.store import schema
from farm.store.adding import add_rows, add_run, number_of
from farm.store.lines import (
    RUNNING,
    AnyLine,
    BareRow,
    BaselineLine,
    ProgressLine,
    RowLine,
    RunData,
    RunLine,
    parse_line,
)
from farm.store.statements import insert_new
from runtime.errors import FormatError


@dataclasses.dataclass
class ImportResult:
    """The result of an import: counts of new runs, new rows and known rows, and the numbers of damaged lines."""

    runs: int = 0
    rows: int = 0
    known: int = 0
    damaged: list[int] = dataclasses.field(default_factory=list)


class LineImporter:
    """Imports the lines of one file into a store, in the caller's transaction."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self.result = ImportResult()
        self._connection, self._path = connection, path
        self._runs: dict[str, int] = {}  # uid -> number
        self._new: set[str] = set()
        self._of_bare_rows = ""

    def import_lines(self, lines: Iterable[bytes]) -> ImportResult:
        """Imports all lines; damaged ones are skipped and listed. Raises FormatError for a line of another version."""
        for number, text in enumerate(lines, 1):
            try:
                line = parse_line(text)
            except FormatError as error:
                raise FormatError(f"{self._path}:{number}: {error}; nothing was taken over") from None
            if not line or not self._import_line(line):
                self.result.damaged.append(number)
        return self.result

    def _import_line(self, line: AnyLine | BareRow) -> bool:
        """False where the line's run is unknown."""
        if isinstance(line, RunLine):
            self._import_run(line.run)
        elif isinstance(line, BareRow):
            return self._import_row(self._run_of_bare_rows(str(line.row["time"])), line)
        elif isinstance(line, RowLine | ProgressLine | BaselineLine):
            return line.of in self._runs and self._import_part(line)
        return True

    def _import_part(self, line: RowLine | ProgressLine | BaselineLine) -> bool:
        run = self._runs[line.of]
        if isinstance(line, RowLine):
            return self._import_row(line.of, line)
        if isinstance(line, BaselineLine):
            self._connection.execute(
                insert_new(self._connection, schema.baselines), [{"name": line.baseline, "run_id": run}]
            )
        elif line.of in self._new or not self._has_note(run, line):
            self._connection.execute(schema.progress.insert().values(run_id=run, key=line.key, data=line.progress))
        return True

    def _has_note(self, run: int, line: ProgressLine) -> bool:
        """Whether a run that was there before has this note, which is told by its content."""
        notes = schema.progress.c
        query = select(notes.data).where(notes.run_id == run, notes.key == line.key)
        return line.progress in self._connection.execute(query).scalars()

    def _import_row(self, uid: str, line: RowLine | BareRow) -> bool:
        new = add_rows(self._connection, self._runs[uid], uid, [line.row])
        self.result.rows += new
        self.result.known += 1 - new
        return True

    def _import_run(self, run: RunData) -> None:
        number = number_of(self._connection, run.uid)
        if number is None:
            number = add_run(self._connection, run)
            self._new.add(run.uid)
            self.result.runs += 1
        elif run.state != RUNNING:  # how it ended was not told to a store that was away by then
            table = schema.runs
            is_open = (table.c.id == number) & (table.c.state == RUNNING)
            self._connection.execute(update(table).where(is_open).values(state=run.state, ended=run.ended))
        self._runs[run.uid] = number

    def _run_of_bare_rows(self, time: str) -> str:
        """The run that a file of bare rows becomes; its uid is the file's hash, so that a file is imported once."""
        if not self._of_bare_rows:
            self._of_bare_rows = uid = hashlib.sha256(self._path.read_bytes()).hexdigest()[:32]
            self._import_run(
                RunData(uid=uid, name=self._path.name, command=f"rows of {self._path}", started=time, ended=time)
            )
        return self._of_bare_rows


def import_file(connection: Connection, path: Path) -> ImportResult:
    """Imports a file of JSON lines into a store, in the caller's transaction; see LineImporter."""
    with path.open("rb") as lines:
        return LineImporter(connection, path).import_lines(lines)
