"""Which journal SQLite keeps: its write-ahead log, except on a file system that other machines may write.

The log's index is memory that processes of one machine share (https://www.sqlite.org/wal.html). On a network file
system two machines would each have one of their own, and damage the file; its rollback journal goes by locks alone.
"""

from __future__ import annotations

from pathlib import Path

import psutil

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
