"""`--store none`: a command that keeps nothing makes no store, and loses no row."""

from __future__ import annotations

from pathlib import Path

from farm.store.lines import new_run
from farm.store.recorder import NOWHERE, Recorder
from tests.farm.rows.nightly_rows import nightly_case


def test_rows_that_nobody_keeps_are_handed_on(own_folder: Path) -> None:
    rows = [nightly_case(seed=1), nightly_case(seed=2)]
    with Recorder(NOWHERE, new_run("run", "farm run", ""), print) as recorder:
        assert list(recorder.recorded(rows)) == rows
    assert recorder.exit_status == 0 and not list(own_folder.iterdir())
