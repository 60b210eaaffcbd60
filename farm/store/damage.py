"""Copies a damaged SQLite file aside, once, and leaves the original as it is."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

REMEDY = "move it away to begin a new store, or try sqlite3's .recover on the copy"


def copy_aside(path: Path) -> str:
    """Copies a damaged file and its log beside it, once for each state that it is in; returns what to do."""
    try:
        copy = path.with_name(f"{path.name}.damaged-{stamp(path.stat().st_mtime)}")
        if not copy.exists():
            for suffix in ("-wal", ""):
                source = path.with_name(path.name + suffix)
                if source.exists() and source.stat().st_size:
                    shutil.copy2(source, copy.with_name(copy.name + suffix))
    except OSError as error:
        return f"it could not be copied aside ({error.strerror}); {REMEDY}"
    return f"copied to {copy.name}; {REMEDY}"


def stamp(timestamp: float) -> str:
    """A time for a file name: `20261121T095500Z`."""
    return datetime.datetime.fromtimestamp(timestamp, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
