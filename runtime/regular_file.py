"""Opens the files that a user names, and that a file of a user names."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading; OSError at once for a FIFO, device or socket, whose reader could wait for ever."""
    return open(path, "rb", opener=_open)


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # of a folder `open` says so itself
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is no regular file, but a FIFO, device or socket")
