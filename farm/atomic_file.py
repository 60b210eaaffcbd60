"""Writes files atomically: under a temporary name beside the target, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from runtime.errors import FarmError


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `path` when the block succeeds, and is deleted when it fails.

    Raises FarmError when the folder or the file cannot be written (full, read-only, not a folder).
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise FarmError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Writes the whole file; see `replacing`."""
    with replacing(path) as file:
        file.write(content)
