"""One user's processes on a host take turns at a unit: a lock file each unit, which the kernel unlocks at any death."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock

from farm.config.inventory import Unit
from farm.host_system import boot_id
from runtime.errors import FarmError

LOCAL_UNITS_FOLDER = Path("build/units")


@contextlib.contextmanager
def locked(unit: str, folder: Path | None = None) -> Iterator[str | None]:
    """Holds the lock of a unit, by its identity; yields None where another process has it, else what names the file.

    It names the lock file as the kernel sees it, until the host boots again. Who holds the lock and finds that
    in a claim knows that the claim's maker has let go of it, or is dead.

    Raises FarmError when the lock file cannot be made.
    """
    path = (folder or _runtime_folder()) / f"{hashlib.sha256(unit.encode()).hexdigest()[:32]}.lock"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        yield None
        return
    except OSError as error:
        raise FarmError(f"{path}: cannot be locked: {error.strerror or error}") from None
    try:
        yield _file_identity(path)
    finally:
        lock.release()


def identity(unit: Unit) -> str:
    """What tells a unit from all others, whatever devices.yml calls it."""
    if unit.transport == "local":
        return f"local {(LOCAL_UNITS_FOLDER / unit.name).resolve()}"
    where = (unit.serial, unit.adb_server_port, unit.address, unit.port, unit.username, unit.jump, unit.folder)
    return " ".join(map(str, (unit.transport, *where)))


def _runtime_folder() -> Path:
    """A folder of the user's own that does not outlast the host's boot by much."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = bool(runtime) and os.access(runtime, os.W_OK)  # after `su` it is another user's
    return Path(runtime, "farm") if usable else Path(tempfile.gettempdir(), f"farm-{os.getuid()}")


def _file_identity(path: Path) -> str:
    status = path.stat()
    return f"{boot_id()[:18]}:{status.st_dev}:{status.st_ino}"
