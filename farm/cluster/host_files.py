"""The files that a host was sent, each once by its hash, and the folders that jobs find them in.

    build/cluster/objects/<SHA-256>      a file; it appears whole
    build/cluster/parts/<SHA-256>.<id>   one that is being sent
    build/cluster/jobs/<hash>/           a job's working directory: links to its files, and what it made of them

What belongs to the host and its units (facts, health, caches, devices.yml) is the same for all jobs: links lead there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from farm.config.inventory import DEFAULT_FILE
from farm.model import fetch
from runtime.errors import ConfigError, FarmError

FOLDER = Path("build/cluster")
SHARED = ("build/cache", "build/health", "build/targets", "build/toolchain", "build/units")
PROBE_BYTES = 8 * 2**20
_HASH = re.compile(r"[0-9a-f]{64}")
_UPLOAD = re.compile(r"[0-9a-f]{1,32}")


class HostFiles:
    """The files of a host, below its working directory."""

    def __init__(self, base: Path = Path()) -> None:
        self._base = base.resolve()
        self._folder = self._base / FOLDER

    def missing(self, hashes: Iterable[str]) -> list[str]:
        """Those of some hashes that no file is here of."""
        return [digest for digest in hashes if not self._object(digest).is_file()]

    def add_part(self, digest: str, upload: str, content: bytes, is_last: bool) -> None:
        """Appends to a file that is being sent; the last part puts it into place. Raises FarmError for a wrong hash."""
        if not _UPLOAD.fullmatch(upload):
            raise ConfigError(f"{upload!r} names no upload")
        part = self._folder / "parts" / f"{self._object(digest).name}.{upload}"
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            file.write(content)
        if is_last:
            self._take(part, digest)

    def keep(self, path: Path) -> str:
        """Keeps a file that a job made; its hash."""
        digest = fetch.sha256_of(path)
        target = self._object(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.is_file():
            copy = target.with_name(f"{digest}.{os.getpid()}")
            shutil.copyfile(path, copy)
            copy.replace(target)
        return digest

    def read_part(self, digest: str, offset: int, size: int) -> bytes:
        """Some bytes of a file; none behind its end."""
        with self._object(digest).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def probe_room(self) -> None:
        """Writes a file as large as a part of one, and deletes it; raises OSError where the disk is full."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            file.write(bytes(PROBE_BYTES))

    def job_folder(self, files: Mapping[str, str]) -> Path:
        """The working directory of all jobs with these files (path there -> hash). Raises ConfigError for bad paths."""
        key = hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:32]
        folder = self._folder / "jobs" / key
        for shared in SHARED:
            (self._base / shared).mkdir(parents=True, exist_ok=True)
            _link(folder / shared, self._base / shared)
        if (self._base / DEFAULT_FILE).is_file():
            _link(folder / DEFAULT_FILE, self._base / DEFAULT_FILE)
        for name, digest in files.items():
            _copy(self._object(digest), folder / _relative(name))
        return folder

    def _take(self, part: Path, digest: str) -> None:
        found = fetch.sha256_of(part)
        if found != digest:
            part.unlink()
            raise FarmError(f"a file arrived with the hash {found}, not {digest}")
        target = self._object(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        part.replace(target)

    def _object(self, digest: str) -> Path:
        if not _HASH.fullmatch(digest):
            raise ConfigError(f"{digest!r} is no SHA-256")
        return self._folder / "objects" / digest


def _relative(name: str) -> Path:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ConfigError(f"{name!r}: a job's file lies in its own folder")
    return Path(path)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)


def _copy(source: Path, target: Path) -> None:
    """Makes a file appear whole, once; a copy, since a job may replace what tuning made."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{id(target)}")
    shutil.copyfile(source, temporary)
    temporary.replace(target)
