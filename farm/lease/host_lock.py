"""A lock file for each unit lets only one process of a user on this host use it; the kernel unlocks it at any death."""

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
def try_lock(unit: str, folder: Path | None = None) -> Iterator[str | None]:
    """Locks a unit, given by its connection key, for the block; yields None where another process has the lock.

    Otherwise yields the identity of the lock file: boot id, device and inode, unique until the host boots again. Who
    holds the lock and finds this identity in a claim knows that the claim's maker has released the lock or is dead.

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


def connection_key(unit: Unit) -> str:
    """How the unit is reached, as text: the same for one unit under any name in devices.yml, different for others."""
    if unit.kind.is_local:
        return f"local {(LOCAL_UNITS_FOLDER / unit.name).resolve()}"
    address = (unit.serial, unit.adb_server, unit.address, unit.port, unit.username, unit.jump, unit.folder)
    return " ".join(map(str, (unit.transport, *address)))


def _runtime_folder() -> Path:
    """The user's folder for run-time files: in XDG_RUNTIME_DIR where that can be written, else in the temporary one."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = bool(runtime) and os.access(runtime, os.W_OK)  # after `su` it is another user's
    return Path(runtime, "farm") if usable else Path(tempfile.gettempdir(), f"farm-{os.getuid()}")


def _file_identity(path: Path) -> str:
    status = path.stat()
    return f"{boot_id()[:18]}:{status.st_dev}:{status.st_ino}"
