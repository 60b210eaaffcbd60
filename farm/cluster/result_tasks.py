"""What a host has written for people elsewhere: artifacts of tuning, and reports.

`results` and `read_part` are called by Dask on the host's own worker, beside its jobs, and only read.
"""

import dataclasses
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from farm import artifacts
from farm.cluster.host_files import PART_BYTES
from farm.host_system import process_space
from farm.report.kept_nights import WrittenReport, served_file, written_reports
from runtime.errors import FarmError
from runtime.plan.artifacts import Fingerprint

REPORTS = Path("reports")  # of whoever measures or reports in the folder of `farm worker`

ResultKind = Literal["artifacts", "reports"]
Part = tuple[str, bytes]


@dataclasses.dataclass(frozen=True)
class KeptSet:
    """What a set of an artifact is for."""

    device_model: str
    fingerprint: Fingerprint


@dataclasses.dataclass(frozen=True)
class KeptArtifact:
    """An artifact below a working folder, and what it is for."""

    path: str
    kind: str
    size_bytes: int
    sets: tuple[KeptSet, ...]


@dataclasses.dataclass(frozen=True)
class HostResults:
    """What a host has written; `folder` tells two hosts from one folder that goes by two names.

    `error`: why nothing is known of it.
    """

    folder: str = ""
    artifacts: tuple[KeptArtifact, ...] = ()
    reports: tuple[WrittenReport, ...] = ()
    error: str = ""


RESULTS = TypeAdapter(HostResults)


def working_folder() -> str:
    """The working folder as no other of any host is called."""
    return f"{process_space()} {Path.cwd()}"


def kept_artifact(path: Path, name: str) -> KeptArtifact | None:
    """A file with what it is for, under a name; None where it cannot be read."""
    try:
        found = artifacts.read(path)
    except FarmError:
        return None
    sets = tuple(KeptSet(each.device_model, each.fingerprint) for each in found.sets)
    return KeptArtifact(name, found.kind, found.size_bytes, sets)


def kept_artifacts() -> list[KeptArtifact]:
    """The artifacts of the working folder that can be read."""
    return [kept for path in artifacts.find() if (kept := kept_artifact(path, path.as_posix()))]


def artifact_file(path: str) -> Path | None:
    """The artifact of that path; None for any other file."""
    return next((file for file in artifacts.find() if file.as_posix() == path), None)


def results() -> bytes:
    """All that the host has written."""
    found = HostResults(working_folder(), tuple(kept_artifacts()), tuple(written_reports(REPORTS)))
    return RESULTS.dump_json(found)


def read_part(kind: ResultKind, path: str, offset: int) -> Part | None:
    """A part of a file, with a word that changes when the file does; None where there is no such file.

    `path` is an artifact's, or `<report>/<file of it>`.
    """
    name, _, page = path.partition("/")
    file = artifact_file(path) if kind == "artifacts" else served_file(REPORTS, name, page)
    if file is None:
        return None
    with file.open("rb") as opened:
        opened.seek(offset)
        status = file.stat()
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}", opened.read(PART_BYTES)
