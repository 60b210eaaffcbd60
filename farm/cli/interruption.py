"""Ctrl-C: the first one is answered at once and ends the jobs, the second one ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

INTERRUPTED = "interrupted; what runs on the units is being ended"


@contextmanager
def announced(text: str = INTERRUPTED) -> Iterator[None]:
    """Says `text` on stderr as soon as the user interrupts the block; a second Ctrl-C then ends the process at once."""
    said = False

    def say_once() -> None:
        nonlocal said
        if not said:
            said = True
            click.echo(text, err=True)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        say_once()
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield  # who ignores Ctrl-C, as `nohup` does, or runs beside the thread that gets it, is not interrupted
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    except KeyboardInterrupt:
        say_once()
        raise
    finally:
        signal.signal(signal.SIGINT, before)
