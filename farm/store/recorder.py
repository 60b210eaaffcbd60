"""Keeps the rows of one command, each as it comes: in the store, or, where that fails, in a file beside it.

What a store does not take (it is locked, full, out of reach) goes to `reports/unsaved-*.jsonl`, or to the temporary
folder where that cannot be written either; `farm store import` reads these files.
A measurement is never lost to its store.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from farm.rows.row import Row
from farm.store.adding import FINISHED, INTERRUPTED, new_run
from farm.store.address import DEFAULT_PATH
from farm.store.damage import stamp
from farm.store.lines import FORMAT, Header, RowLine, RunLine, written
from farm.store.rows import row_data
from farm.store.store import Store
from runtime.errors import FarmError, StoreError

RowType = TypeVar("RowType", bound=Row)
FOLDER = DEFAULT_PATH.parent


class Keeper:
    """One command as a run of the store, from the beginning of a `with` block to its end.

    Entering it raises ConfigError and FormatError, before anything is measured, where it cannot be the right store.
    """

    def __init__(self, url: str | None, name: str, command: str, commit: str, tell: Callable[[str], None]) -> None:
        self._url, self._tell = url, tell
        self._data = new_run(name, command, commit)
        self._store: Store | None = None
        self._run = 0
        self._spilled: Path | None = None

    @property
    def exit_status(self) -> int:
        """1 where the store did not take every row."""
        return int(self._spilled is not None)

    def __enter__(self) -> Keeper:
        try:
            self._store = Store.open(self._url, tell=self._tell)
            self._run = self._store.begin_run(self._data)
        except StoreError as error:
            self._give_up(error)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._store:
            try:
                self._store.end(self._run, FINISHED if error is None else INTERRUPTED)
            except StoreError as failure:
                self._tell(str(failure))
            self._store.close()

    def kept(self, rows: Iterable[RowType]) -> Iterator[RowType]:
        """The rows of a measurement, each kept as it comes."""
        for row in rows:
            self.keep(row)
            yield row

    def keep(self, row: Row) -> None:
        """Keeps a row. Raises FarmError where nothing at all can be written."""
        if self._store:
            try:
                self._store.add(self._run, [row])
                return
            except FarmError as error:  # damage, too, may come to light only now
                self._give_up(error)
        self._spill(row)

    def _give_up(self, error: FarmError) -> None:
        """The rest of the run goes to a file: a store that is locked would cost half a minute a row."""
        self._tell(f"not kept in the store: {error}")
        if self._store:
            self._store.close()
            self._store = None

    def _spill(self, row: Row) -> None:
        line = written(RowLine(of=self._data.uid, row=row_data(row)))
        if self._spilled is None:
            self._spilled = self._first_spilled(
                written(Header(farm_store=FORMAT)) + written(RunLine(run=self._data)) + line
            )
            self._tell(f"rows are kept in {self._spilled}; `farm store import` takes them over")
        else:
            _append(self._spilled, line)

    def _first_spilled(self, content: bytes) -> Path:
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
