"""Bundles of nights that hosts share over a place: each leaves those of its archive there, and reads the others'.

Of another's bundles only the manifests are read, all at once; their files are fetched when a duet wants them.

    manifests.jsonl      as a name in a host's list: the newest manifests of all cases, a line each
    blobs/<SHA-256>      a file that they name
"""

import re
import tempfile
from pathlib import Path

from pydantic import ValidationError

from farm.rows.bundle import BundleManifest
from farm.safe_text import one_line, word
from farm.store.bundle_archive import BLOBS, BundleArchive
from farm.store.shared_place import SharedPlace, Shelf, own_name
from runtime.errors import FormatError

SHELF: Shelf = "bundles"
MANIFESTS = "manifests.jsonl"
NAME_FILE = "shared-as"
NEWEST = 60  # of each case: nights that are looked back on
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ROLE = re.compile(r"\w[\w.+-]{0,99}", re.ASCII)


class SharedBundles:
    """The bundles of all hosts in a place, and those of this host's archive that lie in a folder.

    Methods raise FarmError where the place cannot be reached, or nothing can be written here.
    """

    def __init__(self, place: SharedPlace, folder: Path) -> None:
        self._place, self._folder = place, folder

    def __str__(self) -> str:
        return str(self._place)

    def archive(self) -> BundleArchive:
        """This host's archive, which fetches from the place what it lacks."""
        return BundleArchive(self._folder, self._place)

    def manifests(self, name: str) -> tuple[list[BundleManifest], list[str]]:
        """What other hosts left of a nightly run, and why some of it cannot be used, a line each."""
        found, left_out = list[BundleManifest](), list[str]()
        own = own_name(self._folder / NAME_FILE)
        for host in self._place.hosts(SHELF):
            if host != own:
                try:
                    found += [one for one in self._manifests_of(host) if one.name == name]
                except FormatError as error:
                    left_out.append(f"bundles of {word(host, 100)}: {one_line(str(error))}")
        return found, left_out

    def publish(self) -> tuple[int, int]:
        """Leaves the archive's bundles in the place, in the place of those that it left before.

        Returns how many bundles are there now, and how many bytes were sent.
        """
        archive = BundleArchive(self._folder)
        blobs = {path.name: path for path in archive.blobs()}
        manifests = [one for one in archive.manifests(newest=NEWEST) if set(one.files.values()) <= blobs.keys()]
        named = {digest for one in manifests for digest in one.files.values()}
        with tempfile.TemporaryDirectory(prefix="farm-share-") as folder:
            listed = Path(folder) / MANIFESTS
            listed.write_text("".join(f"{one.model_dump_json()}\n" for one in manifests))
            files = {MANIFESTS: listed, **{f"{BLOBS}/{digest}": blobs[digest] for digest in sorted(named)}}
            sent = self._place.publish(SHELF, own_name(self._folder / NAME_FILE), files)
        return sum(bool(one.files) for one in manifests), sent

    def _manifests_of(self, host: str) -> list[BundleManifest]:
        """All that a host left; none where that has gone meanwhile."""
        digest = self._place.files_of(SHELF, host).get(MANIFESTS)
        with tempfile.TemporaryDirectory(prefix="farm-share-") as folder:
            path = Path(folder) / MANIFESTS
            if digest is None or not self._place.fetch(digest, path):
                return []
            return [_parsed(self._place, line) for line in path.read_bytes().splitlines()]


def _parsed(place: SharedPlace, line: bytes) -> BundleManifest:
    """A manifest; names and hashes become paths here, so that only such as farm writes are taken."""
    try:
        manifest = BundleManifest.model_validate_json(line)
    except ValidationError:
        raise FormatError(f"{place}: {MANIFESTS} is damaged") from None
    if not (all(map(_ROLE.fullmatch, manifest.files)) and all(map(_DIGEST.fullmatch, manifest.files.values()))):
        raise FormatError(f"{place}: {MANIFESTS} names files that no bundle has")
    return manifest
