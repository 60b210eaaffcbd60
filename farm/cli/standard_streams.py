"""Standard streams that the caller has closed (`>&-`) or that cannot be written: no room, a reader that has gone."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

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
    sys.stdout = _rewrapped(sys.stdout, _Output(1, "w", closefd=False))
    sys.stderr = _rewrapped(sys.stderr, _Messages(2, "w", closefd=False))


def give_up_output() -> None:
    """Leads standard output to nowhere: what it still holds must not fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Output(io.FileIO):
    """Tells by the error that it is standard output that failed."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            raise OutputError(error.errno, error.strerror, "standard output") from None


class _Messages(io.FileIO):
    """Loses what cannot be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def _rewrapped(stream: TextIO, raw: io.FileIO) -> TextIO:
    """A stream like the given one that writes through `raw`."""
    assert isinstance(stream, io.TextIOWrapper)
    stream.flush()
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),
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
