"""Records what one command measures, each row and note as it comes: on the disk first, then in the store.

A row is written to `reports/unsaved-*.jsonl`, or to the temporary folder where that fails, before the store is asked to
take it; the file goes when the store has taken all of it. So no measurement is lost because its store is locked, full,
frozen or out of reach, nor because the command is killed: `farm store import` reads these files.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from farm.rows.row import Row
from farm.store.address import DEFAULT_PATH
from farm.store.lines import (
    FINISHED,
    FORMAT,
    INTERRUPTED,
    AnyLine,
    ExportHeader,
    ProgressLine,
    RowLine,
    RunData,
    RunLine,
    encoded_line,
    now,
)
from farm.store.rows import row_data
from farm.store.sqlite_file import stamp
from runtime.errors import FarmError, FormatError, StoreError

if TYPE_CHECKING:  # takes a third of a second to import, for a host's jobs in vain
    from farm.store import Store

RowType = TypeVar("RowType", bound=Row)
FOLDER = DEFAULT_PATH.parent
NOWHERE = "none"  # as an address: rows are not kept


class Recorder:
    """Records one command as a run of the store, from the beginning of a `with` block to its end; threads may share it.

    A run that the store has already gets the rows that it lacks: what is brought twice is kept once. A store that fails
    is left alone until the end, and then offered all that it lacks once more.

    Entering the block raises ConfigError for a wrong address and FormatError for a file that is no store of this farm,
    before anything is measured. No other failure of the store is raised: `exit_status` tells of it.

    Attributes:
        url: the store's address.
        run: what the run is, wherever it is kept.
        store: the open store; None outside the block, and where it is away or nothing is to be kept.
        number: the run's number in the store; 0 where it has none.
    """

    def __init__(self, url: str | None, run: RunData, tell: Callable[[str], None]) -> None:
        self.url, self.run, self.number = url, run, 0
        self.store: Store | None = None
        self._tell = tell
        self._is_wanted = url != NOWHERE
        self._failure: FarmError | None = None
        self._journal = _Journal(run)
        self._told: list[Path] | None = None  # where the user was told that rows are
        self._lock = threading.Lock()

    @property
    def exit_status(self) -> int:
        """1 where the store did not take all of it."""
        return int(self._failure is not None)

    @property
    def is_kept(self) -> bool:
        """Whether the store has all of the run."""
        return self._is_wanted and self._failure is None

    def __enter__(self) -> Recorder:
        if not self._is_wanted:
            return self
        from farm.store import Store

        try:
            self.store = Store.open(self.url)
            self.number = self.store.begin_run(self.run)
        except StoreError as error:
            self._leave_store(error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with self._lock:
            self._leave_if_gone()
            state = FINISHED if error is None else INTERRUPTED
            is_awaited = error is None or isinstance(error, Exception)  # who is interrupted does not wait for a store
            if self.store:
                from farm.store.engine import hurried

                with contextlib.nullcontext() if is_awaited else hurried():
                    self._try(lambda store: store.end(self.number, state))
            if self._failure and self._journal.is_begun:
                self._journal.add(RunLine(run=self.run.model_copy(update={"state": state, "ended": now()})))
                if is_awaited:
                    self._offer_again()
                self._tell_where()
            if self.is_kept:
                self._journal.remove()
            if self.store:
                self.store.close()
                self.store = None

    def recorded(self, rows: Iterable[RowType]) -> Iterator[RowType]:
        """Yields the rows of a measurement and records each as it comes."""
        for row in rows:
            self.record(row)
            yield row

    def record(self, row: Row) -> None:
        """Records a row."""
        self._keep(RowLine(of=self.run.uid, row=row_data(row)), lambda store: store.add(self.number, [row]))

    def note(self, key: str, data: Mapping[str, Any]) -> None:
        """Records what a run must know to go on; there may be several notes under a key."""
        line = ProgressLine(of=self.run.uid, key=key, progress=dict(data))
        self._keep(line, lambda store: store.note_progress(self.number, key, dict(data)))

    def _keep(self, line: AnyLine, add: Callable[[Store], None]) -> None:
        if not self._is_wanted:
            return
        with self._lock:
            self._leave_if_gone()
            self._journal.add(line)
            self._try(add)
            self._tell_where()

    def _try(self, change: Callable[[Store], None]) -> None:
        """Changes the store, if it is there; leaves it where it fails."""
        if self.store:
            try:
                change(self.store)
            except FarmError as error:  # damage, too, may come to light only now
                self._leave_store(error)
            except KeyboardInterrupt:  # what it was being given is rolled back
                self._leave_store(StoreError("interrupted before it had taken all"))
                raise

    def _leave_if_gone(self) -> None:
        """Leaves a store whose file was deleted; what it has of the run can still be read, as long as it is open."""
        if not self.store or not self.store.is_gone:
            return
        of = self.run.uid
        with contextlib.suppress(FarmError):
            rows = [RowLine(of=of, row=row) for row in self.store.rows(self.number)]
            notes = [ProgressLine(of=of, key=key, progress=data) for key, data in self.store.progress(self.number)]
            self._journal.remove()
            self._journal.add(*rows, *notes)
        self._leave_store(StoreError(f"{self.store.address}: deleted or replaced since this command began"))

    def _leave_store(self, error: FarmError) -> None:
        """Records the rest of the run in a file: a store that is locked would cost half a minute a row."""
        self._failure = error
        self._tell(f"not kept in the store: {error}")
        if self.store:
            self.store.close()
            self.store = None

    def _tell_where(self) -> None:
        if not self._failure or self._told == self._journal.paths:
            return
        self._told = list(self._journal.paths)
        where = " and ".join(map(str, self._told))
        self._tell(
            f"rows are kept in {where}; `farm store import` takes them over"
            if where
            else f"rows are kept in memory alone: neither {FOLDER} nor {tempfile.gettempdir()} takes them; make room"
        )

    def _offer_again(self) -> None:
        """Brings all of the run to a store that failed, as `farm store import` does."""
        if isinstance(self._failure, FormatError):
            return
        from farm.store import Store
        from farm.store.adding import number_of
        from farm.store.importing import LineImporter

        try:
            with Store.open(self.url) as store, store.writing() as connection:
                LineImporter(connection, FOLDER).import_lines(self._journal.lines())
                self.number = number_of(connection, self.run.uid) or 0
        except (FarmError, OSError):
            return
        self._failure = None
        self._tell("the store works again: all rows are kept in it")


class _Journal:
    """The lines of a run, each on the disk when `add` returns, if there is room anywhere.

    Attributes:
        paths: the files that the lines are in; a second one where the first took no more.
    """

    def __init__(self, run: RunData) -> None:
        self._name = f"unsaved-{stamp(time.time())}-{run.uid[:8]}.jsonl"
        self._head = encoded_line(ExportHeader(farm_store=FORMAT)) + encoded_line(RunLine(run=run))
        self._waiting = b""  # what no folder had room for
        self.paths: list[Path] = []
        self.is_begun = False

    def add(self, *lines: AnyLine) -> None:
        """Writes lines, and those that there was no room for before."""
        self.is_begun = True
        self._waiting += b"".join(map(encoded_line, lines))
        for folder in (FOLDER, Path(tempfile.gettempdir())):
            path = folder / self._name
            with contextlib.suppress(OSError):
                _append(path, self._head, self._waiting)
                self._waiting = b""
                if path not in self.paths:
                    self.paths.append(path)
                return

    def lines(self) -> Iterator[bytes]:
        """All lines, wherever they are."""
        yield from self._head.splitlines(keepends=True)
        for path in self.paths:
            with path.open("rb") as lines:
                yield from lines
        yield from self._waiting.splitlines(keepends=True)

    def remove(self) -> None:
        """Deletes the files."""
        for path in self.paths:
            with contextlib.suppress(OSError):
                path.unlink()


def _append(path: Path, head: bytes, content: bytes) -> None:
    """Adds to a file all or nothing, and waits until it is on the disk; a new file begins with a head."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        left = memoryview(content if before else head + content)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise
