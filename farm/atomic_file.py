"""Writes files atomically: under a temporary name beside the target, then renamed.

A process that is killed while it writes leaves its temporary file `.<name>.<space>-<pid>-<start>.<random>`. The name
says whose it is, so that another process knows when nobody will finish it. A number of a process means something only
in its own space (host_system.process_space): what comes from another machine, over a shared folder, or from before the
last boot, goes by its age.
"""

import contextlib
import functools
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from farm import host_system
from runtime.errors import FarmError, unwritten

MAX_NAME = 100
DEVICES = Path("/dev")
FOREIGN_AGE_S = 86_400.0  # far above what any write takes, and any clock of a shared folder is wrong

_TEMPORARY = re.compile(r"\..+\.(?P<space>[0-9a-f]{8})-(?P<pid>[0-9]{1,10})-(?P<start>[0-9]*)\.[a-z0-9_]{8}", re.DOTALL)


@contextlib.contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `path` when the block succeeds, and is deleted when it fails.

    Who may read and write it is said by `mode`, whatever the umask is, or by the umask where there is none. Raises
    NoRoomError when the disk is full, FarmError when the folder or the file cannot be written for other reasons.

    What is no file of a disk (`/dev/null`, `/dev/stdout`, a pipe) is written, never replaced.
    """
    temporary: Path | None = None
    try:
        if path.parent == DEVICES or (path.exists() and not path.is_file() and not path.is_dir()):
            with path.open("wb") as file:
                yield file
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_once(path.parent.absolute(), os.getpid())
        name = path.parent / f"{temporary_prefix(path)}{secrets.token_hex(4)}"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        temporary = name
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise unwritten(f"{path}: cannot be written", error, FarmError) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Writes the whole file; see `replacing`."""
    with replacing(path) as file:
        file.write(content)


def temporary_prefix(path: Path) -> str:
    """How the name of a temporary file or folder for `path` begins; eight random characters follow."""
    pid = os.getpid()
    return f".{path.name[:MAX_NAME]}.{host_system.process_space()}-{pid}-{host_system.process_start(pid)}."


def abandoned(folder: Path) -> list[Path]:
    """The temporary files and folders in a folder that no live process owns."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [Path(entry) for entry in entries if _is_abandoned(entry)]
    return []


def remove(paths: Iterable[Path]) -> None:
    """Removes abandoned files and folders; what cannot be removed (another user's) stays."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


@functools.cache
def _clear_once(folder: Path, pid: int) -> None:
    """Clears a folder at the first write of this process there."""
    remove(abandoned(folder))


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    match = _TEMPORARY.fullmatch(entry.name)
    if not match:
        return False
    if match["space"] == host_system.process_space():
        return not host_system.is_running(int(match["pid"]), match["start"])
    with contextlib.suppress(OSError):
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > FOREIGN_AGE_S
    return False
