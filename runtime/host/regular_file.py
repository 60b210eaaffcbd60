"""Opens files that a user names, directly or within another file, and refuses what could block for ever."""

import io
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> io.BufferedReader:
    """Opens a file for reading; raises OSError at once for a FIFO, device or socket, where reading may never end."""
    return open(path, "rb", opener=_open)


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # of a folder `open` says so itself
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is no regular file, but a FIFO, device or socket")
