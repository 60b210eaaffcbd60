"""Folders for the intermediate files of a build, beside what is built.

Whoever makes one holds the lock file of the folder that it lies in. The kernel releases the lock of a process that is
killed, so a scratch folder that is found while one holds the lock is a dead process's.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = "lock"
_PREFIX = ".scratch-"


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Holds a folder's lock, without what killed processes left in it."""
    with FileLock(folder / LOCK):
        remove(_scratch_folders(folder))
        yield


@contextlib.contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """An empty folder in one whose lock is held, removed at the end.

    Its name is new each time: compilers that a killed process left running may still write into theirs.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix=_PREFIX, ignore_cleanup_errors=True) as path:
        yield Path(path)


def abandoned(folder: Path) -> list[Path]:
    """The scratch folders in a folder, unless a live process holds its lock and so may own them."""
    if not _scratch_folders(folder):
        return []
    try:
        with FileLock(folder / LOCK, timeout=0):
            return _scratch_folders(folder)
    except (Timeout, OSError):
        return []


def remove(folders: list[Path]) -> None:
    """Removes scratch folders; what cannot be removed (another user's) stays."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _scratch_folders(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in folder.iterdir() if path.name.startswith(_PREFIX) and path.is_dir()]
    return []
