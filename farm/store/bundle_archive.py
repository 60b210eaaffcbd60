"""The archive of nightly bundles beside a store: files by their SHA-256, which bundles share, and a manifest a night.

    <store>.bundles/blobs/<SHA-256>
    <store>.bundles/manifests/<hash of the case>/<run>.json

Everything is written whole, files before the manifest that names them. What is read is hashed again: a damaged file is
refused by its name, and the next night that leaves the same content mends it.
"""

import contextlib
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from filelock import FileLock
from pydantic import ValidationError

from farm import atomic_file
from farm.rows.bundle import BundleManifest
from farm.store.address import DEFAULT_PATH, Address
from farm.transport import file_digest
from runtime.errors import FarmError, FormatError

SUFFIX = ".bundles"
BLOBS, MANIFESTS = "blobs", "manifests"
CHUNK_BYTES = 1 << 20
EXECUTABLES = ("farmrt", "engine")
FILE_NAMES = {  # other roles, of engines, are names themselves
    "plan": "model.plan",
    "weights": "model.data",
    "tuned": "tuned.bin",
    "kernels": "kernels.bin",
    "selection": "selection.json",
}


class BlobSource(Protocol):
    """Where files are that this archive lacks; as text it is what people know it by."""

    def fetch(self, digest: str, target: Path) -> bool:
        """Brings the file of a hash here, whole; False where it has none. Raises FarmError where it has another."""


class LostBundleError(FarmError):
    """A bundle whose files are gone or damaged; the text names the file."""


@dataclasses.dataclass(frozen=True)
class ArchiveSummary:
    """How many bundles and files there are, their bytes, and when the oldest bundle's night began."""

    folder: str
    bundles: int
    files: int
    size_bytes: int
    oldest: str


def folder_of(address: Address) -> Path:
    """Where the bundles of a store lie: beside its file, else beside the default store's."""
    path = address.path or DEFAULT_PATH
    return path.with_name(path.name + SUFFIX)


class BundleArchive:
    """The bundles in a folder. Several processes may use it at the same time.

    Args:
        folder: where they lie.
        elsewhere: what has files of bundles that others left; none of them is kept here.
    """

    def __init__(self, folder: Path, elsewhere: BlobSource | None = None) -> None:
        self.folder, self._elsewhere = folder, elsewhere

    def leave(self, manifest: BundleManifest, files: Mapping[str, Path]) -> BundleManifest:
        """Keeps the files of a night under the manifest, which gets their hashes; without files the manifest alone."""
        with self.locked():
            hashes = {role: self._keep(path) for role, path in files.items()}
            manifest = manifest.model_copy(update={"files": hashes})
            self.write(manifest)
        return manifest

    def write(self, manifest: BundleManifest) -> None:
        """Writes a manifest in the place of the one that there was of its night."""
        atomic_file.write(self._manifest_file(manifest), manifest.model_dump_json(indent=1).encode())

    def manifests(self, name: str | None = None, newest: int | None = None) -> list[BundleManifest]:
        """All manifests that can be read, by run; `name`: of one nightly run; `newest`: so many of each case."""
        found = [manifest for path in self._manifest_files(newest) if (manifest := _read_manifest(path))]
        return sorted((one for one in found if name in (None, one.name)), key=lambda one: (one.run, one.series))

    def fetch(self, manifest: BundleManifest, folder: Path) -> dict[str, Path]:
        """Copies the files of a bundle into a folder, each checked; returns role -> path.

        Raises LostBundleError where one of them is gone or damaged.
        """
        if not manifest.files:
            raise LostBundleError(f"{manifest}: its files are no longer kept")
        folder.mkdir(parents=True, exist_ok=True)
        return {role: self._fetch(manifest, role, folder) for role in manifest.files}

    def summary(self) -> ArchiveSummary:
        """Counts all there is."""
        bundles = [manifest for manifest in self.manifests() if manifest.files]
        sizes = [path.stat().st_size for path in self.blobs()]
        oldest = min((manifest.started for manifest in bundles), default="")
        return ArchiveSummary(str(self.folder), len(bundles), len(sizes), sum(sizes), oldest)

    def problems(self) -> list[str]:
        """What is damaged or missing, each in a line: manifests, files, and files that bundles name."""
        there = {path.name for path in self.blobs()}
        unreadable = [f"{path}: no manifest" for path in self._manifest_files() if _read_manifest(path) is None]
        damaged = [f"{path}: damaged, its content has another hash" for path in self.blobs() if not _is_whole(path)]
        missing = [
            f"{manifest}: {role} {digest} is missing"
            for manifest in self.manifests()
            for role, digest in manifest.files.items()
            if digest not in there
        ]
        return [*unreadable, *damaged, *missing]

    def blobs(self) -> list[Path]:
        """All files, in the order of their names; those that somebody is writing are not among them."""
        folder = self.folder / BLOBS
        return sorted(path for path in folder.glob("*") if path.is_file() and not path.name.startswith("."))

    def blob(self, digest: str) -> Path:
        """Where the file of a hash lies, if it is there."""
        return self.folder / BLOBS / digest

    def remove_manifest(self, manifest: BundleManifest) -> None:
        """Removes a manifest; its files stay until nothing names them."""
        self._manifest_file(manifest).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps others from removing what is about to be named, or naming what is about to be removed."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / ".lock")
            lock.acquire()
        except OSError as error:
            raise FarmError(f"{self.folder}: cannot be written: {error.strerror or error}") from None
        try:
            yield
        finally:
            lock.release()

    def _keep(self, path: Path) -> str:
        """Copies a file into the archive, unless it is there and whole; returns its hash."""
        digest = file_digest.sha256(path)
        blob = self.blob(digest)
        if not (blob.is_file() and _is_whole(blob)):
            with path.open("rb") as source, atomic_file.replacing(blob) as target:
                shutil.copyfileobj(source, target, CHUNK_BYTES)
        return digest

    def bring(self, digest: str, target: Path) -> str:
        """Copies the file of a hash, from elsewhere where it is not here; why not, where neither has it whole."""
        fault = self._copy(digest, target)
        if not fault or self._elsewhere is None:
            return fault
        try:
            return "" if self._elsewhere.fetch(digest, target) else f"{fault} and missing in {self._elsewhere}"
        except FarmError as error:
            return f"{fault}; {error}"

    def _copy(self, digest: str, target: Path) -> str:
        """The same of what is here."""
        try:
            shutil.copyfile(self.blob(digest), target)
        except OSError:
            return f"is missing in {self.folder}"
        if file_digest.sha256(target) == digest:
            return ""
        target.unlink()
        return f"is damaged in {self.folder}"

    def _fetch(self, manifest: BundleManifest, role: str, folder: Path) -> Path:
        digest, path = manifest.files[role], folder / FILE_NAMES.get(role, role)
        if fault := self.bring(digest, path):
            raise LostBundleError(f"{manifest}: {role} {digest} {fault}")
        path.chmod(0o755 if role in EXECUTABLES else 0o644)
        return path

    def _manifest_files(self, newest: int | None = None) -> list[Path]:
        cases = sorted((self.folder / MANIFESTS).glob("*"))
        nights = (sorted(case.glob("[0-9]*.json"), key=lambda path: (len(path.name), path.name)) for case in cases)
        return [path for of_case in nights for path in (of_case[-newest:] if newest else of_case)]

    def _manifest_file(self, manifest: BundleManifest) -> Path:
        case = hashlib.sha256(json.dumps(manifest.series).encode()).hexdigest()[:16]
        return self.folder / MANIFESTS / case / f"{manifest.run}.json"


def _is_whole(blob: Path) -> bool:
    return file_digest.sha256(blob) == blob.name


def _read_manifest(path: Path) -> BundleManifest | None:
    """None where it is damaged, or gone meanwhile."""
    try:
        return BundleManifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError, FormatError):
        return None
