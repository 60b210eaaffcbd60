"""The files that a host was sent, each once by its hash, and the folders that jobs find them in.

    build/cluster/objects/<SHA-256>      a file; it appears whole
    build/cluster/parts/<SHA-256>.<id>   one that is being sent
    build/cluster/jobs/<hash>/           a job's working directory: links to its files, and what it made of them
    build/cluster/detached/<id>/         a job that goes on without its client (farm/cluster/detached.py)

The time of each is when it was last used. What nobody has used for 14 days goes, and beyond 20 GB what is oldest.

What belongs to the host and its units (facts, health, caches, devices.yml) is the same for all jobs: links lead there.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from farm.artifacts import MANIFEST_NAME
from farm.config.inventory import DEFAULT_FILE
from farm.transport import file_digest
from farm.workspace import TUNING_RESULTS
from runtime.errors import ConfigError, FarmError

FOLDER = Path("build/cluster")
SHARED = ("build/cache", "build/health", "build/targets", "build/toolchain", "build/units")
LEFT = (  # what a job may leave for who asked for it: artifacts, journals, bundles of a night
    *TUNING_RESULTS,
    *("build/night.bundles/blobs/*", "build/night.bundles/manifests/*/*.json"),
)
PROBE_BYTES = 8 * 2**20
PART_BYTES = 4 * 2**20  # of a file that is sent, either way
DETACHED = "detached"
PARTS = ("jobs", "objects", "parts", DETACHED)
DAY_S = 86_400.0
IN_USE_S, UNUSED_S = DAY_S, 14 * DAY_S
LIMIT_BYTES = 20 * 2**30
_HASH = re.compile(r"[0-9a-f]{64}")
_UPLOAD = re.compile(r"[0-9a-f]{1,32}")


class HostFiles:
    """The files of a host, below its working directory."""

    def __init__(self, base: Path = Path()) -> None:
        self._base = base.resolve()
        self._folder = self._base / FOLDER

    def missing(self, hashes: Iterable[str]) -> list[str]:
        """Those of some hashes that no file is here of."""
        return [digest for digest in hashes if not _is_there(self._object(digest))]

    def add_part(self, digest: str, upload: str, content: bytes, is_last: bool) -> None:
        """Appends to a file that is being sent; the last part puts it into place. Raises FarmError for a wrong hash."""
        if not _UPLOAD.fullmatch(upload):
            raise ConfigError(f"{upload!r} names no upload")
        part = self._folder / "parts" / f"{self._object(digest).name}.{upload}"
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("ab") as file:
                file.write(content)
        except OSError:  # no room, most likely: what is there takes some away, and will not be gone on with
            part.unlink(missing_ok=True)
            raise
        if is_last:
            self._take(part, digest)

    def keep(self, path: Path) -> str:
        """Keeps a file that a job made; its hash."""
        digest = file_digest.sha256(path)
        target = self._object(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not _is_there(target):
            _copy_whole(path, target, target.with_name(f"{digest}.{os.getpid()}.{id(path)}"))
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

    def job_folder(self, files: Mapping[str, str], own: str = "") -> Path:
        """The working directory of all jobs with these files (path there -> hash), or of the one job that is `own`.

        Raises ConfigError for bad paths.
        """
        folder = self.folder_of(files, own)
        for shared in SHARED:
            (self._base / shared).mkdir(parents=True, exist_ok=True)
            _link(folder / shared, self._base / shared)
        if (self._base / DEFAULT_FILE).is_file():
            _link(folder / DEFAULT_FILE, self._base / DEFAULT_FILE)
        for name, digest in files.items():
            _copy(self._object(digest), folder / relative_path(name))
        os.utime(folder)
        return folder

    def folder_of(self, files: Mapping[str, str], own: str = "") -> Path:
        """Where job_folder makes it."""
        key = hashlib.sha256(json.dumps([own, *sorted(files.items())]).encode()).hexdigest()[:32]
        return self._folder / "jobs" / key

    def left(self, folder: Path, files: Mapping[str, str]) -> dict[str, str]:
        """Files of LEFT in a job's folder that it made, or that are no longer as they were sent; kept here.

        Of a folder whose manifest has changed all files count: what it tells of may be as it was.
        """
        found = sorted({path for pattern in LEFT for path in folder.glob(pattern) if path.is_file()})
        kept = {str(path.relative_to(folder)): self.keep(path) for path in found if not path.name.startswith(".")}
        changed = {name for name, digest in kept.items() if files.get(name) != digest}
        whole = {str(Path(name).parent) for name in changed if Path(name).name == MANIFEST_NAME}
        return {name: digest for name, digest in kept.items() if name in changed or str(Path(name).parent) in whole}

    def clean(self, now_s: float, unused_s: float = UNUSED_S, limit_bytes: int = LIMIT_BYTES) -> list[Path]:
        """Removes what is not used any more, and beyond a limit what was used longest ago; returns what it was.

        What was used within a day stays: a job may be at it.
        """
        found = sorted((_last_use_s(path), path) for part in PARTS for path in (self._folder / part).glob("*"))
        left_bytes, removed = sum(_size_bytes(path) for _, path in found), []
        for used_s, path in found:
            age_s = now_s - used_s
            if age_s > unused_s or (left_bytes > limit_bytes and age_s > IN_USE_S):
                left_bytes -= _size_bytes(path)
                _remove(path)
                removed.append(path)
        return removed

    def _take(self, part: Path, digest: str) -> None:
        found = file_digest.sha256(part)
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


def relative_path(name: str) -> Path:
    """A path of a job's folder; raises ConfigError for one that leads out of it."""
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
    _copy_whole(source, target, target.with_name(f".{target.name}.{os.getpid()}.{id(target)}"))


def _copy_whole(source: Path, target: Path, temporary: Path) -> None:
    """Copies a file, which appears whole; nothing is left of one that finds no room."""
    try:
        shutil.copyfile(source, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _is_there(path: Path) -> bool:
    """Whether a file is there; it counts as used then, so that it stays for who asked."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _last_use_s(path: Path) -> float:
    return path.stat(follow_symlinks=False).st_mtime


def _size_bytes(path: Path) -> int:
    """Of a file, or of all files below a folder; what links lead to is not ours."""
    if not path.is_dir():
        return path.stat(follow_symlinks=False).st_size
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(file.stat(follow_symlinks=False).st_size for file in files)


def _remove(path: Path) -> None:
    """Links are removed, never what they lead to."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
