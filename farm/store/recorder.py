"""Records the rows of one command, each as it comes: in the store, or, where that fails, in a file beside it.

Rows that the store cannot take (it is locked, full, out of reach) are written to `reports/unsaved-*.jsonl`, or to the
temporary folder where that fails too; `farm store import` reads these files. So no measurement is lost because of its
store.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from farm.rows.row import Row
from farm.store.address import DEFAULT_PATH
from farm.store.damage import stamp
from farm.store.lines import (
    FINISHED,
    FORMAT,
    INTERRUPTED,
    ExportHeader,
    RowLine,
    RunData,
    RunLine,
    encoded_line,
)
from farm.store.rows import row_data
from runtime.errors import FarmError, StoreError

if TYPE_CHECKING:  # takes a third of a second to import, for a host's jobs in vain
    from farm.store import Store

RowType = TypeVar("RowType", bound=Row)
FOLDER = DEFAULT_PATH.parent
NOWHERE = "none"  # as an address: rows are not kept


class Recorder:
    """Records one command as a run of the store, from the beginning of a `with` block to its end.

    A run that the store has already gets the rows that it lacks: what is brought twice is kept once.

    Entering the block raises ConfigError for a wrong address and FormatError for a file that is no store of this farm,
    before anything is measured.
    """

    def __init__(self, url: str | None, run: RunData | None, tell: Callable[[str], None]) -> None:
        self._url, self._tell = url, tell
        self._data = run if url != NOWHERE else None
        self._store: Store | None = None
        self._run = 0
        self._spilled: Path | None = None

    @property
    def exit_status(self) -> int:
        """1 where the store did not take every row."""
        return int(self._spilled is not None)

    def __enter__(self) -> Recorder:
        if self._data is None:
            return self
        from farm.store import Store

        try:
            self._store = Store.open(self._url)
            self._run = self._store.begin_run(self._data)
        except StoreError as error:
            self._leave_store(error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._store:
            try:
                self._store.end(self._run, FINISHED if error is None else INTERRUPTED)
            except StoreError as failure:
                self._tell(str(failure))
            self._store.close()

    def recorded(self, rows: Iterable[RowType]) -> Iterator[RowType]:
        """Yields the rows of a measurement and records each as it comes."""
        for row in rows:
            self.record(row)
            yield row

    def record(self, row: Row) -> None:
        """Records a row. Raises FarmError where neither the store nor a file can be written."""
        if self._store:
            try:
                self._store.add(self._run, [row])
                return
            except FarmError as error:  # damage, too, may come to light only now
                self._leave_store(error)
        if self._data is not None:
            self._spill(row, self._data)

    def _leave_store(self, error: FarmError) -> None:
        """Records the rest of the run in a file: a store that is locked would cost half a minute a row."""
        self._tell(f"not kept in the store: {error}")
        if self._store:
            self._store.close()
            self._store = None

    def _spill(self, row: Row, run: RunData) -> None:
        line = encoded_line(RowLine(of=run.uid, row=row_data(row)))
        if self._spilled is None:
            self._spilled = self._begin_spill_file(
                encoded_line(ExportHeader(farm_store=FORMAT)) + encoded_line(RunLine(run=run)) + line
            )
            self._tell(f"rows are kept in {self._spilled}; `farm store import` takes them over")
        else:
            _append(self._spilled, line)

    def _begin_spill_file(self, content: bytes) -> Path:
        name = f"unsaved-{stamp(time.time())}-{os.getpid()}.jsonl"
        try:
            return _append(FOLDER / name, content)
        except OSError:
            return _append(Path(tempfile.gettempdir()) / name, content)


def _append(path: Path, content: bytes) -> Path:
    """Adds to a file, and waits until it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return path
