"""Progress of a search on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tuner.lab import Progress as SearchProgress

LINE_EVERY_S = 10.0


class PlainProgress:
    """Lines: each step, and the state of a search every ten seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start_s = self._last_s = time.monotonic()

    def step(self, text: str) -> None:
        """A new step of the job."""
        click.echo(text, file=self._stream)
        self._start_s = self._last_s = time.monotonic()

    def search(self, state: SearchProgress) -> None:
        """The state of a search."""
        now_s = time.monotonic()
        if now_s - self._last_s < LINE_EVERY_S:
            return
        self._last_s = now_s
        left_s = (now_s - self._start_s) * (1 / state.share - 1)
        click.echo(
            f"{state.stage}: {100 * state.share:.0f} %, {state.trials} trials, {state.device_s:.1f} s of device time, "
            f"about {left_s:.0f} s left",
            file=self._stream,
        )


class BarProgress:
    """A bar that the steps and the search share."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def step(self, text: str) -> None:
        """A new step of the job."""
        self._progress.reset(self._task, total=None, description=text)

    def search(self, state: SearchProgress) -> None:
        """The state of a search."""
        text = f"{state.stage} ({state.trials} trials)"
        self._progress.update(self._task, total=1.0, completed=state.share, description=text)


@contextmanager
def shown() -> Iterator[PlainProgress | BarProgress]:
    """Shows progress on stderr as long as the block runs."""
    if not sys.stderr.isatty():
        yield PlainProgress(sys.stderr)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield BarProgress(progress)
