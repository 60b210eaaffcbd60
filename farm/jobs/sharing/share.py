"""Takes over what other hosts have tuned, and gives them what was tuned here."""

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from farm.jobs.tune.received_files import ReceivedFiles
from farm.safe_text import one_line, word
from farm.store.shared_bundles import SharedBundles
from farm.store.shared_place import SharedPlace, Shelf, own_name
from farm.workspace import BUILD_FOLDER, TUNING_RESULTS
from runtime.errors import FormatError

NAME_FILE = BUILD_FOLDER / "sharing" / "host"
SHELF: Shelf = "hosts"


@dataclasses.dataclass(frozen=True)
class ShareResult:
    """The result of one sharing.

    Attributes:
        host: the name that this host's files have in the place.
        others: the hosts whose files were read.
        sets: sets of tuned parameters and kernels that were taken over.
        trials: lines of journals that were taken over.
        given: files of this host that are in the place now.
        bundles: bundles of this host that are in the place now.
        sent_bytes: what of both had to be sent.
        left_out: why some of it was not taken over, a line each.
    """

    host: str
    others: tuple[str, ...]
    sets: int
    trials: int
    given: int
    bundles: int
    sent_bytes: int
    left_out: tuple[str, ...]


def share_results(address: str, bundles: Path, say: Callable[[str], None]) -> ShareResult:
    """Brings `build/` and a place together, and leaves there the bundles of an archive in a folder.

    Nothing is removed in either that others have.

    Of two sets for one device (fingerprint and model) the one stays here that proved the larger gain. A host whose
    files are damaged is left out, and named.

    Raises:
        ConfigError: the place needs a package that is missing, or a file here cannot be written.
        FarmError: the place cannot be reached.
    """
    place, host = SharedPlace(address), own_name(NAME_FILE)
    received, left_out = ReceivedFiles(keeps_own=True), []
    others = [name for name in place.hosts(SHELF) if name != host]
    for other in others:
        say(f"{address}: what {word(other, 100)} has")
        try:
            with tempfile.TemporaryDirectory(prefix="farm-share-") as folder:
                left_out += _fetch(place, other, Path(folder))
                received.receive(Path(folder))
        except FormatError as error:
            left_out.append(f"{word(other, 100)}: {one_line(str(error))}")
    say(f"{address}: what this host has")
    files = own_files()
    sent = place.publish(SHELF, host, files)
    given, sent_of_bundles = SharedBundles(place, bundles).publish() if bundles.is_dir() else (0, 0)
    sent_bytes = sent + sent_of_bundles
    return ShareResult(
        host, tuple(others), received.sets, received.trials, len(files), given, sent_bytes, tuple(left_out)
    )


def own_files() -> dict[str, Path]:
    """What tuning has left here: path -> file."""
    found = sorted({path for pattern in TUNING_RESULTS for path in Path().glob(pattern) if path.is_file()})
    return {path.as_posix(): path for path in found if not path.name.startswith(".")}


def _fetch(place: SharedPlace, host: str, folder: Path) -> list[str]:
    """Copies a host's files below a folder; what is left out, a line each. What is gone by now comes the next time."""
    left_out = []
    for name, digest in place.files_of(SHELF, host).items():
        if _is_result(name):
            place.fetch(digest, folder / name)
        else:
            left_out.append(f"{word(host, 100)}: {one_line(name)} is nothing that tuning leaves")
    return left_out


def _is_result(name: str) -> bool:
    """Whether a path is one at which tuning leaves files; none that leads elsewhere is."""
    path = PurePosixPath(name)
    parts_are_names = ".." not in path.parts and not path.is_absolute() and one_line(name) == name
    return parts_are_names and any(
        path.match(pattern) and _depth(name) == _depth(pattern) for pattern in TUNING_RESULTS
    )


def _depth(path: str) -> int:
    return len(PurePosixPath(path).parts)
