"""Folders that appear whole or not at all: made beside the target, then put in its place."""

import contextlib
import ctypes
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from runtime.errors import ConfigError, FarmError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_SUFFIX = ".writing"
_KILLED_S = 3600.0


@contextlib.contextmanager
def replacing_folder(
    folder: Path, mark: str, keep: Callable[[Path, Path], None] = lambda replaced, newest: None
) -> Iterator[Path]:
    """A new folder that takes the place of `folder` when the block ends well, and vanishes when it does not.

    `keep` is called with the one that was replaced, which is deleted afterwards, and the one in its place.
    Only a folder that is empty or holds a file named `mark` is replaced: raises ConfigError for any other, FarmError
    where it cannot be written.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - a link stays a link, and `.` gets a name
    _check(folder, mark)
    new: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _forget_killed(folder)
        new = _beside(folder)
        yield new
        _put_in_place(new, folder, keep)
    except OSError as error:
        raise FarmError(f"{folder}: cannot be written: {error.strerror or error}") from None
    finally:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)


def _beside(folder: Path) -> Path:
    new = folder.parent / f".{folder.name[:100]}.{secrets.token_hex(4)}{_SUFFIX}"
    new.mkdir()  # who may read it is said by the umask
    return new


def _forget_killed(folder: Path) -> None:
    """Deletes what killed writers left beside the folder."""
    for path in folder.parent.iterdir():
        ours = path.name.startswith(f".{folder.name[:100]}.") and path.name.endswith(_SUFFIX)
        if ours and time.time() - path.stat().st_mtime > _KILLED_S:
            shutil.rmtree(path, ignore_errors=True)


def _check(folder: Path, mark: str) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ConfigError(f"{folder}: not a folder; give the report another one")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / mark).is_file():
        raise ConfigError(
            f"{folder}: holds something else than a report ({mark} is missing); give the report another folder"
        )


def _put_in_place(new: Path, folder: Path, keep: Callable[[Path, Path], None]) -> None:
    """Exchanges the two; afterwards `new` is the old one. Without that system call there is a moment without either."""
    if not folder.exists():
        new.rename(folder)
    elif _exchange(new, folder):
        keep(new, folder)
    else:
        old = _beside(folder)
        folder.rename(old / "old")
        new.rename(folder)
        keep(old / "old", folder)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Whether the system could exchange two paths in one step (Linux: renameat2)."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    failed: int = call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return failed == 0
