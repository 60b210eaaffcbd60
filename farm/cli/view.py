"""Progress on stderr: on a terminal a live line for each unit, elsewhere a plain line for each stage or slow stage."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from farm.cli import interruption
from farm.jobs.fleet.progress import PROGRESS_FORM, ProgressLines, ProgressView
from farm.rows.device_state import DeviceState
from farm.safe_text import word
from tuner.progress import Progress as SearchProgress

LINE_EVERY_S = 10.0
REFRESH_PER_S = 4
MAX_STAGE = 100


@dataclasses.dataclass
class _Line:
    """The state of one unit, as its line shows it."""

    stage: str = ""
    since_s: float = dataclasses.field(default_factory=time.monotonic)
    search: SearchProgress | None = None
    temperature_c: float | None = None
    ended: bool = False

    @property
    def head(self) -> str:
        """The stage without how far it is, which follows a colon."""
        return self.stage.partition(":")[0]

    @property
    def left_s(self) -> float | None:
        """Seconds that the search still takes, if it goes on as it did."""
        share = self.search.share if self.search else 0.0
        return (time.monotonic() - self.since_s) * (1 / share - 1) if share > 0 else None


class PlainView(ProgressView):
    """Each stage of a unit as a line, and the state of a search every ten seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: dict[str, _Line] = {}
        self._said_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def stage(self, unit: str, text: str) -> None:
        """See ProgressView."""
        with self._lock:
            line = _Line(text)
            known = self._lines.get(unit)
            goes_on = known is not None and text != line.head == known.head
            self._lines[unit] = line
            if not goes_on or line.since_s - self._said_s[unit] >= LINE_EVERY_S:
                self._say(unit, text)

    def search(self, unit: str, progress: SearchProgress) -> None:
        """See ProgressView."""
        with self._lock:
            line = self._lines.setdefault(unit, _Line())
            line.search = progress
            if time.monotonic() - self._said_s.get(unit, line.since_s) >= LINE_EVERY_S:
                self._say(unit, _search_text(line))

    def ended(self, unit: str, text: str) -> None:
        """See ProgressView."""
        with self._lock:
            self._say(unit, text)

    def _say(self, unit: str, text: str) -> None:
        self._said_s[unit] = time.monotonic()
        click.echo(f"{unit}: {word(text, 4 * MAX_STAGE)}", file=self._stream)


class SlowStagesView(ProgressView):
    """A line for a stage that has lasted ten seconds, and every ten seconds from then on: short jobs stay silent.

    Why a unit cannot be used is said at once.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._ended = stream, threading.Event()
        self._lines: dict[str, _Line] = {}
        self._said_s: dict[str, float] = {}
        self._told: dict[str, str] = {}  # why a unit cannot be used
        self._lock = threading.Lock()

    def stage(self, unit: str, text: str) -> None:
        """See ProgressView."""
        with self._lock:
            line, known = _Line(text), self._lines.get(unit)
            if known and known.head == line.head:
                line.since_s = known.since_s
            else:
                self._said_s[unit] = line.since_s
            self._lines[unit] = line

    def waiting(self, unit: str, text: str) -> None:
        """See ProgressView."""
        self.stage(unit, text)
        with self._lock:
            if self._told.get(unit) != text:
                self._told[unit], self._said_s[unit] = text, time.monotonic()
                click.echo(f"{unit}: {word(text, 4 * MAX_STAGE)}", file=self._stream)

    def ended(self, unit: str, text: str) -> None:
        """See ProgressView."""
        with self._lock:
            self._lines.pop(unit, None)

    @contextmanager
    def watched(self) -> Iterator[SlowStagesView]:
        """Looks every second, as long as the block runs, in a thread of its own."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def say_slow(self, now_s: float) -> None:
        """Says those that have lasted long enough since they were said, or since they began."""
        with self._lock:
            for unit, line in sorted(self._lines.items()):
                if now_s - self._said_s[unit] >= LINE_EVERY_S:
                    self._said_s[unit] = now_s
                    for_s = f" ({now_s - line.since_s:.0f} s)" if now_s - line.since_s >= 2 * LINE_EVERY_S else ""
                    click.echo(f"{unit}: {word(line.stage, 4 * MAX_STAGE)}{for_s}", file=self._stream)

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            self.say_slow(time.monotonic())


class LiveView(ProgressView):
    """A table with a line a unit: stage, search, temperature, time left."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._spinner = Spinner("dots")
        self._lock = threading.Lock()

    def stage(self, unit: str, text: str) -> None:
        """See ProgressView."""
        with self._lock:
            line, known = _Line(text), self._lines.get(unit)
            if known:
                line.temperature_c = known.temperature_c
                line.since_s = known.since_s if known.head == line.head else line.since_s
            self._lines[unit] = line

    def search(self, unit: str, progress: SearchProgress) -> None:
        """See ProgressView."""
        with self._lock:
            line = self._lines.setdefault(unit, _Line())
            if line.search is None:
                line.since_s = time.monotonic()
            line.search = progress

    def state(self, unit: str, state: DeviceState) -> None:
        """See ProgressView."""
        with self._lock:
            self._lines.setdefault(unit, _Line()).temperature_c = state.temperature_c

    def ended(self, unit: str, text: str) -> None:
        """See ProgressView."""
        with self._lock:
            line = self._lines.setdefault(unit, _Line())
            line.stage, line.search, line.ended = text, None, True

    def __rich__(self) -> RenderableType:
        with self._lock:
            table = Table.grid(padding=(0, 2))
            for is_figure in (True, False, True, True, True):  # the stage gives way, never a figure
                table.add_column(no_wrap=is_figure)
            for unit, line in self._lines.items():
                table.add_row(*_cells(unit, line))
            working = any(not line.ended for line in self._lines.values())
        return Group(table, self._spinner) if working else table


def _cells(unit: str, line: _Line) -> list[RenderableType]:
    heat = f"{line.temperature_c:.0f} °C" if line.temperature_c is not None else ""
    style = "dim" if line.ended else ""
    if line.search is None:
        seconds = "" if line.ended else f"{time.monotonic() - line.since_s:.0f} s"
        return [Text(unit, "bold"), Text(word(line.stage, MAX_STAGE), style), "", heat, seconds]
    left = f"about {line.left_s:.0f} s left" if line.left_s is not None else ""
    text = f"{line.search.stage} ({line.search.trials} trials)"
    return [Text(unit, "bold"), Text(text), ProgressBar(1.0, line.search.share, width=30), heat, left]


def _search_text(line: _Line) -> str:
    assert line.search
    state = line.search
    left = f", about {line.left_s:.0f} s left" if line.left_s is not None else ""
    return (
        f"{state.stage}: {100 * state.share:.0f} %, {state.trials} trials, {state.device_s:.1f} s of device time{left}"
    )


@contextmanager
def shown(only_slow: bool = False, interrupted: str = interruption.INTERRUPTED) -> Iterator[ProgressView]:
    """Shows progress on stderr as long as the block runs; `only_slow`: of short jobs, where stderr is no terminal.

    `interrupted` is said when the user interrupts the block.
    """
    with interruption.announced(interrupted), _shown(only_slow) as view:
        yield view


@contextmanager
def _shown(only_slow: bool) -> Iterator[ProgressView]:
    if sys.stderr.isatty():
        view = LiveView()
        with Live(view, console=Console(stderr=True), refresh_per_second=REFRESH_PER_S, transient=True):
            yield view
    elif os.environ.get(PROGRESS_FORM) == "json":
        yield ProgressLines(sys.stderr)
    elif only_slow:
        with SlowStagesView(sys.stderr).watched() as slow:
            yield slow
    else:
        yield PlainView(sys.stderr)
