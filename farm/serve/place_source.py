"""The artifacts that other hosts have left in a shared place, as a source for the page."""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from farm import artifacts
from farm.cluster.host_files import PART_BYTES
from farm.cluster.result_tasks import HostResults, KeptArtifact, ResultKind, kept_artifact
from farm.jobs.sharing.share import NAME_FILE, SHELF
from farm.store.shared_place import SharedPlace
from farm.workspace import BUILD_FOLDER
from runtime.errors import FormatError

FOLDER = BUILD_FOLDER / "cache" / "shared"


class PlaceSource:
    """Reads a place; each file comes here once, by its hash, and stays as long as some host has it."""

    def __init__(self, place: SharedPlace, folder: Path = FOLDER) -> None:
        self._place, self._folder = place, folder
        self._known: dict[tuple[str, str], str] = {}

    def results(self) -> dict[str, HostResults]:
        """What other hosts have left; of one whose list or file is damaged that is said, and the rest shown."""
        own = NAME_FILE.read_text().strip() if NAME_FILE.is_file() else ""
        found, known = dict[str, HostResults](), dict[tuple[str, str], str]()
        for host in self._place.hosts(SHELF):
            if host != own:
                try:
                    files = {name: digest for name, digest in self._place.files_of(SHELF, host).items() if _fits(name)}
                except FormatError as error:
                    found[host] = HostResults(error=f"cannot be read: {error}")
                    continue
                known |= {(host, name): digest for name, digest in files.items()}
                found[host] = self._host(files)
        self._known = known
        self._forget(set(known.values()))
        return found

    def content(self, host: str, kind: ResultKind, path: str) -> Iterator[bytes] | None:
        """An artifact's content, piece by piece; None where the host has left no such file."""
        digest = self._known.get((host, path)) if kind == "artifacts" else None
        file = self._folder / (digest or "")
        return _pieces(file) if digest and file.is_file() else None

    def _host(self, files: Mapping[str, str]) -> HostResults:
        told, damaged = list[KeptArtifact](), list[str]()
        for name, digest in files.items():
            file = self._folder / digest
            try:
                if file.is_file() or self._place.fetch(digest, file):
                    found = kept_artifact(file, name)
                    told += [found] if found else []
            except FormatError as error:
                damaged.append(str(error))
        return HostResults(artifacts=tuple(told), error=f"has damaged files: {'; '.join(damaged)}" if damaged else "")

    def _forget(self, digests: set[str]) -> None:
        for path in self._folder.glob("*"):
            if path.name not in digests and not path.name.startswith("."):
                path.unlink(missing_ok=True)


def _fits(name: str) -> bool:
    """Whether a path is one of an artifact."""
    path = PurePosixPath(name)
    return ".." not in path.parts and any(path.match(f"{BUILD_FOLDER}/{pattern}") for pattern in artifacts.PATTERNS)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(PART_BYTES):
            yield piece
