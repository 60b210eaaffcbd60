"""File systems that are soon full."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import require

BLOCK_BYTES = 4096


@contextlib.contextmanager
def disk_at(folder: Path, size_mb: int) -> Iterator[Path]:
    """Mounts an empty file system of so many MiB in a folder, which is made; needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", folder], capture_output=True)
    require("root", mounted.stderr.decode())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file: Path) -> None:
    """Writes a file that takes all that is free."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
        while True:
            opened.write(bytes(BLOCK_BYTES))
