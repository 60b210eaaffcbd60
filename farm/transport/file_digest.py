"""SHA-256 of files of this machine, computed once as long as a file stays as it is: every unit and job asks for it."""

import hashlib
import os
import time
from pathlib import Path

from runtime.errors import JobError

PIECE_BYTES = 256 * 1024
SETTLED_NS = 2_000_000_000  # a younger file may change again within the resolution of its time
MOST_FILES = 10_000

_Version = tuple[int, int, int, int, int]
_KNOWN: dict[_Version, str] = {}


def sha256(path: Path) -> str:
    """Hash of a file's content, in hexadecimal; raises JobError for one that cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:
            version = _version(file.fileno())
            if known := _KNOWN.get(version):
                return known
            digest = hashlib.sha256()
            while piece := file.read(PIECE_BYTES):  # hashlib's own reader clears as much memory for every small file
                digest.update(piece)
            if _version(file.fileno()) == version and time.time_ns() - max(version[3:]) > SETTLED_NS:
                _remember(version, digest.hexdigest())
            return digest.hexdigest()
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror}") from None


def _version(descriptor: int) -> _Version:
    """What changes with the content: which file it is, its size, and when it was written and changed."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _remember(version: _Version, digest: str) -> None:
    if len(_KNOWN) >= MOST_FILES:
        _KNOWN.clear()
    _KNOWN[version] = digest
