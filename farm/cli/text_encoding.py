"""UTF-8 for every text, whatever the locale says: deployment files, names and tables hold more than ASCII."""

from __future__ import annotations

import io
import os
import sys


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
