"""The file of a SQLite store: with the journal that its file system allows; copied aside, once, when it is damaged.

A write-ahead log's index is memory that processes of one machine share (https://www.sqlite.org/wal.html). On a network
file system two machines would each have one of their own, and damage the file; its rollback journal goes by locks.
"""

import datetime
import shutil
from pathlib import Path

import psutil

INDEX = "-shm"
LOGS = ("-wal", INDEX, "-journal")
INDEX_BYTES = 32 * 1024  # the least that an index takes
LOCAL, SHARED = "WAL", "DELETE"
# As /proc/self/mountinfo and mount(8) name them.
NETWORK_TYPES = frozenset(
    {"9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"}
    | {"nfs4", "ocfs2", "prl_fs", "smb2", "smb3", "smbfs", "sshfs", "vboxsf", "virtiofs", "webdav"}
    | {"ceph-fuse", "rclone", "s3fs"}
)


def journal_mode(path: Path) -> str:
    """The journal for a store at a path, by the type of the file system that holds it."""
    return SHARED if _file_system(path).removeprefix("fuse.") in NETWORK_TYPES else LOCAL


def _file_system(path: Path) -> str:
    """The type of the file system of a file, which may not be there yet; the last mounted one of a folder counts."""
    folder = path.resolve().parent
    found = {Path(each.mountpoint): each.fstype for each in psutil.disk_partitions(all=True)}
    return next((found[each] for each in (folder, *folder.parents) if each in found), "").lower()


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from any other that takes its name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def has_room(path: Path) -> bool:
    """Whether the disk of a file has room for a log's index, without which SQLite reads nothing."""
    try:
        return shutil.disk_usage(path.parent).free >= INDEX_BYTES
    except OSError:
        return True


def is_still(path: Path) -> bool:
    """Whether nobody has a store open, nor can now: its disk has no room for an index, and no log has rows of it."""
    wal, index, journal = (_size_bytes(path.with_name(path.name + suffix)) for suffix in LOGS)
    return not wal and not journal and index < INDEX_BYTES and not has_room(path)


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


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


def move_logs_aside(path: Path) -> None:
    """Moves what a deleted or renamed store left: SQLite would write it into any other that takes the name."""
    for suffix in LOGS:
        log = path.with_name(path.name + suffix)
        if suffix != INDEX and _size_bytes(log):
            log.rename(path.with_name(f"{path.name}.left-{stamp(log.stat().st_mtime)}{suffix}"))
        else:
            log.unlink(missing_ok=True)


def stamp(timestamp: float) -> str:
    """A time for a file name: `20261121T095500Z`."""
    return datetime.datetime.fromtimestamp(timestamp, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
