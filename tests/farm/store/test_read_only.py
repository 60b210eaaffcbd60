"""A store that this user may only read: on a read-only disk, in an archive, in another user's folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.cli import call
from farm.store import Store
from runtime.errors import StoreError
from tests.farm.store.rows import a_row

NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    """A store with a row, in a folder that nobody may write; pytest's own folders cannot be entered by other users."""
    folder = Path(tempfile.mkdtemp())
    found = folder / "farm.db"
    with Store.open(str(found)) as store:
        store.add(store.begin("run", ""), [a_row(unit="mi8")])
    found.chmod(0o444)
    folder.chmod(0o555)
    yield found
    folder.chmod(0o755)
    shutil.rmtree(folder)


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """Root may write everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("words", [["store", "info"], ["store", "verify"], ["store", "export", "-"]])
def test_it_is_read_and_nothing_is_left_beside_it(
    path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with somebody_else():
        assert call([*words, "--store", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_it_is_not_written(path: Path) -> None:
    with somebody_else(), Store.open(str(path)) as store:
        assert len(store.runs()) == 1
        with pytest.raises(StoreError, match=r"farm\.db: cannot be written: read-only; look at the rights"):
            store.begin("run", "")


def test_rows_that_its_log_has_are_seen(path: Path) -> None:
    """Somebody writes it: what is not yet in the file itself counts."""
    path.chmod(0o644)
    path.parent.chmod(0o755)
    writer = sqlite3.connect(path)
    writer.execute("UPDATE runs SET name = 'changed'")
    writer.commit()
    path.parent.chmod(0o555)
    path.chmod(0o444)
    with somebody_else(), Store.open(str(path)) as store:
        assert [run.name for run in store.runs()] == ["changed"]
    writer.close()
