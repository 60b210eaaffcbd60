"""Standard streams that the caller has closed (`>&-`) or that cannot be written: no room, a reader that has gone."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO, TextIO, cast

STREAMS = ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w"))


class OutputError(OSError):
    """Standard output cannot be written."""


def make_usable() -> None:
    """Leads closed streams to nowhere, and lets no work fail because its messages cannot be written."""
    for descriptor, name, mode in STREAMS:
        if not _is_open(descriptor):
            # Gets this number, the least that is free; else the next file would, and what other programs print with it.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    sys.stdout = _rewrapped(sys.stdout, 1, _Output)
    sys.stderr = _rewrapped(sys.stderr, 2, _Messages)


def give_up_output() -> None:
    """Leads standard output to nowhere: what it still holds must not fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Output(io.TextIOWrapper):
    """Tells by the error that it is standard output that failed.

    As text, so that a signal comes before or after a write, never between writing and noting what was written.
    """

    def write(self, text: str) -> int:
        with _told_of_output():
            return super().write(text)

    def flush(self) -> None:
        with _told_of_output():
            super().flush()


class _Messages(io.TextIOWrapper):
    """Loses what cannot be written."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


@contextlib.contextmanager
def _told_of_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error.errno, error.strerror, "standard output") from None


def _rewrapped(stream: TextIO, descriptor: int, kind: type[io.TextIOWrapper]) -> TextIO:
    """A stream of another kind to the same place, written as the given one is."""
    assert isinstance(stream, io.TextIOWrapper)
    stream.flush()
    raw = io.FileIO(descriptor, "w", closefd=False)
    return kind(
        cast(BinaryIO, raw) if stream.write_through else io.BufferedWriter(raw),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def ensure_utf8() -> None:
    """Starts this process again in Python's UTF-8 mode (PEP 540) where the locale has another encoding for files.

    What a stream whose encoding was chosen (PYTHONIOENCODING) cannot hold is written as an escape.
    """
    if sys.getfilesystemencoding().lower() != "utf-8" and not sys.flags.utf8_mode:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
