"""Runs of the store as users name them: by number, as `latest`, or as a baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from farm.jobs.compare.runs import StoredRun
from farm.rows.run_info import RunInfo
from runtime.errors import ConfigError

if TYPE_CHECKING:
    from farm.store import Store

PREFIX = "run:"
LATEST = "latest"
NIGHTLY = "nightly"
SHOWN = 5
SEARCHED = 200  # of the newest runs, for one with cases


def find_run(store: Store, text: str) -> RunInfo:
    """The run of a number, or the newest finished one with nightly cases; ConfigError where there is none."""
    if text == LATEST:
        run = next(_with_cases(store), None)
        if run is None:
            raise ConfigError(f"{store.address}: no night has ended there yet; `farm nightly` makes nights")
    else:
        run = next((run for run in store.runs() if str(run.id) == text), None)
    if run is None:
        raise ConfigError(f"run {text}: not in {store.address}; {_newest(store)}")
    return run


def stored_run(store: Store, text: str) -> StoredRun:
    """The run that `run:ID`, `run:latest` or a baseline's name stands for, with its cases; ConfigError without any."""
    wanted = text.removeprefix(PREFIX) if text.startswith(PREFIX) else str(store.baselines()[text])
    info = find_run(store, wanted)
    rows = store.nightly_rows(info.id)
    if not rows:
        raise ConfigError(f"{text}: run {info.id} ({info.command}) measured no nightly cases; {_newest(store)}")
    return StoredRun(text, info, rows)


def _with_cases(store: Store) -> Iterator[RunInfo]:
    """Finished runs with nightly cases, newest first."""
    for run in store.runs(limit=SEARCHED):
        if run.state == "finished" and any(True for _ in store.rows(run.id, NIGHTLY)):
            yield run


def _newest(store: Store) -> str:
    """The newest runs in a few words."""
    newest = [f"{run.id} ({run.name}, {run.started[:16]})" for run in store.runs(limit=SHOWN)]
    return f"the newest are {', '.join(newest)}" if newest else "there is no run yet; `farm nightly` makes some"
