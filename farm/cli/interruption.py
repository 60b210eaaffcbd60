"""Ctrl-C, SIGTERM and SIGHUP: the first one is answered at once and ends the jobs, the second one ends the process."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import click

from farm import cli

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = "interrupted; what runs on the units is being ended"


def listen() -> None:
    """Takes the signals that were held back until a command could be ended in a line (farm/__main__.py)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)


def treat_termination_as_ctrl_c() -> None:
    """Has SIGTERM (`systemctl stop`, `timeout`) and SIGHUP (a closed terminal) give units back, as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # `nohup` ignores SIGHUP
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in `farm ... &` of a shell script
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


@contextmanager
def announced(text: str = INTERRUPTED) -> Iterator[None]:
    """Says `text` on stderr as soon as the user interrupts the block; from then on a second Ctrl-C kills."""
    unsaid, heard = [text], False

    def say_once() -> None:
        with suppress(IndexError):
            click.echo(unsaid.pop(), err=True)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        heard = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        say_once()
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        try:
            yield  # who ignores Ctrl-C, as `farm ... &` of a script does, is interrupted by SIGTERM and SIGHUP alone
        except KeyboardInterrupt:
            say_once()
            raise
        return
    signal.signal(signal.SIGINT, on_signal)
    try:
        with _killed_by_second(say_once):
            yield
    except KeyboardInterrupt:
        say_once()
        raise
    finally:
        if not heard:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _killed_by_second(say_once: Callable[[], None]) -> Iterator[None]:
    """Ends the process at a second Ctrl-C where the first is not heard, since a library waits, as SQLite for a lock."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def watch() -> None:
        numbers: set[int] = set()
        with os.fdopen(reader, "rb", buffering=0) as signals:
            while number := signals.read(1):
                if number[0] in numbers:
                    os._exit(cli.INTERRUPTED)
                numbers.add(number[0])
                say_once()

    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
