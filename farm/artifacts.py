"""The artifacts of tuning: where they lie, their manifest, whether they are whole and still valid, and merging them.

    build/<library>/opencl/<abi>/<library>_tuned_opencl_parameter.<device model>.<soc>.bin
    build/<library>/opencl/<abi>/<library>_compiled_opencl_kernel.<device model>.<soc>.bin
    build/<library>/opencl/<abi>/<library>_selection.<device model>.<soc>.json
    build/<library>/opencl/<abi>/manifest.json

A file holds a set for each fingerprint (two drivers of one machine are two); the manifest holds the hash of each file,
and for each set where it comes from and what speaks for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from pydantic import Field, ValidationError

from farm import atomic_file
from farm.kept_choices import ChoiceSet, decode_choices, different_fields, encode_choices, is_choice_file, merge_choices
from farm.rows.latency import Latency
from farm.rows.record import Record
from farm.workspace import BUILD_FOLDER
from runtime.errors import ConfigError, FormatError
from runtime.plan.artifacts import (
    Fingerprint,
    KernelSet,
    Replacement,
    TunedSet,
    decode_artifact,
    encode_kernels,
    encode_tuned,
    merge_kernels,
    merge_tuned,
)

MANIFEST_VERSION = 1
MANIFEST_NAME = "manifest.json"

Kind = Literal["tuned parameters", "compiled kernels", "selection"]
ArtifactSet = TunedSet | KernelSet | ChoiceSet
Sets = list[TunedSet] | list[KernelSet] | list[ChoiceSet]
PATTERNS = ("*/opencl/*/*.bin", "*/opencl/*/*_selection.*.json")


class FileRecord(Record):
    """One file of the folder."""

    kind: Kind
    sha256: str
    size_bytes: int


class LaunchRecord(Record):
    """What was chosen for one launch, and why; times are None where none was measured."""

    key: str
    kernel: str
    uses: int
    chosen: str
    default_ns: float | None
    tuned_ns: float | None
    gain_ci: tuple[float, float] | None
    reason: str


class ModelRecord(Record):
    """Evidence of one model: its latency by default and tuned, measured in turns; the gain in percent of time saved."""

    model: str
    default_ms: Latency
    tuned_ms: Latency
    gain_percent: float
    gain_ci: tuple[float, float] | None
    trials: int
    device_s: float


class SetRecord(Record):
    """Where a set of both files comes from, and what speaks for it."""

    fingerprint: dict[str, str]
    device_model: str
    unit: str
    time: str
    versions: dict[str, str]
    settings: dict[str, Any]
    launches: tuple[LaunchRecord, ...]
    models: tuple[ModelRecord, ...] = ()


class ChoiceRecord(Record):
    """Where a kept choice comes from, and what speaks for it.

    `predicted_ms` is by costs, `predicted_before_ms` that of the plan before. Both were measured in turns with the same
    parameters: `ratio` is the time by the choice over that before, with its 95 % confidence interval. `default_ms` is
    the default plan's untuned, `choice_ms` the tuned time by the choice. `origins` counts launches by where their costs
    come from.
    """

    fingerprint: dict[str, str]
    device_model: str
    unit: str
    time: str
    versions: dict[str, str]
    model: str
    graph: str
    settings: dict[str, Any]
    predicted_ms: float
    predicted_before_ms: float
    gap: float
    origins: dict[str, int]
    default_ms: Latency
    choice_ms: Latency
    ratio: float
    ratio_ci: tuple[float, float]
    trials: int
    device_s: float


class Manifest(Record):
    """The manifest of a folder of artifacts."""

    schema_version: int = MANIFEST_VERSION
    files: dict[str, FileRecord] = Field(default_factory=dict)
    sets: tuple[SetRecord, ...] = ()
    choices: tuple[ChoiceRecord, ...] = ()

    def set_like(self, other: SetRecord) -> SetRecord | None:
        """The set of the other's fingerprint and device model."""
        return next((known for known in self.sets if _same(known, other)), None)

    def with_set(self, new: SetRecord) -> Manifest:
        """The manifest with a set in the place of the one of its fingerprint and device model, if there is one."""
        others = tuple(known for known in self.sets if not _same(known, new))
        return self.model_copy(update={"sets": (*others, new)})

    def with_choice(self, new: ChoiceRecord) -> Manifest:
        """The manifest with the record of a choice in the place of the one that it replaces, if there is one."""
        others = tuple(known for known in self.choices if _subject(known) != _subject(new))
        return self.model_copy(update={"choices": (*others, new)})


def _subject(record: ChoiceRecord) -> tuple[Any, ...]:
    return (record.fingerprint, record.device_model, record.model, record.settings)


def _same(one: SetRecord, other: SetRecord) -> bool:
    return one.fingerprint == other.fingerprint and one.device_model == other.device_model


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, empty where there is none; FormatError when it is damaged or of another version."""
    path = folder / MANIFEST_NAME
    if not path.exists():
        return Manifest()
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise FormatError(f"{path}: damaged at {where or 'its start'}; `farm tune` writes it again") from None
    if manifest.schema_version != MANIFEST_VERSION:
        raise FormatError(f"{path}: version {manifest.schema_version}, this farm reads {MANIFEST_VERSION}")
    return manifest


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from the folder's files between reading and writing them."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{MANIFEST_NAME}.lock"):
        yield


def publish(tuned_file: Path, tuned: TunedSet, kernels_file: Path, kernels: KernelSet, record: SetRecord) -> None:
    """Writes both files of one folder and the manifest. Sets of other fingerprints stay, as long as they can be used.

    Each file appears whole or not at all; ConfigError or FarmError when one cannot be written.
    """
    folder = tuned_file.parent
    with _locked(folder):
        tuned_content = encode_tuned([*_others(tuned_file, tuned), tuned])
        kernels_content = encode_kernels([*_others(kernels_file, kernels), kernels])
        manifest = usable_manifest(folder).with_set(record)
        atomic_file.write(tuned_file, tuned_content)
        atomic_file.write(kernels_file, kernels_content)
        files = manifest.files | {
            tuned_file.name: _file_record("tuned parameters", tuned_content),
            kernels_file.name: _file_record("compiled kernels", kernels_content),
        }
        _write_manifest(folder, manifest.model_copy(update={"files": files}))


def publish_choice(path: Path, new: ChoiceSet, record: ChoiceRecord) -> None:
    """Writes a choice beside what is known of its device, and its evidence into the manifest; see `publish`."""
    folder = path.parent
    with _locked(folder):
        others = _others(path, new)
        known = _choices_of(path, new.fingerprint)
        content = encode_choices([*others, known.with_choices(new.choices) if known else new])
        manifest = usable_manifest(folder).with_choice(record)
        atomic_file.write(path, content)
        files = manifest.files | {path.name: _file_record("selection", content)}
        _write_manifest(folder, manifest.model_copy(update={"files": files}))


def _choices_of(path: Path, fingerprint: Fingerprint) -> ChoiceSet | None:
    known = set_in_force(path, fingerprint)
    return known if isinstance(known, ChoiceSet) else None


def set_in_force(path: Path, fingerprint: Fingerprint) -> ArtifactSet | None:
    """The set of a file that a device of this fingerprint uses; None without one, also where the file is damaged."""
    try:
        sets = read(path).sets if path.is_file() else []
    except (ConfigError, FormatError):
        return None
    return next((one_set for one_set in sets if one_set.fingerprint == fingerprint), None)


def _others(path: Path, new: ArtifactSet) -> list[Any]:
    """Sets of an existing file that stay: another fingerprint, the same sources. A damaged file has none."""
    if not path.is_file():
        return []
    try:
        sets = _decoded(path.read_bytes(), path)
    except FormatError:
        return []
    wanted = new.fingerprint
    return [
        other
        for other in sets
        if type(other) is type(new)
        and other.fingerprint != wanted
        and other.fingerprint.source_hash == wanted.source_hash
    ]


def usable_manifest(folder: Path) -> Manifest:
    """The folder's manifest, or a new one in place of one that cannot be read."""
    try:
        return read_manifest(folder)
    except FormatError:
        return Manifest()


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    atomic_file.write(folder / MANIFEST_NAME, (manifest.model_dump_json(indent=2) + "\n").encode())


def _file_record(kind: Kind, content: bytes) -> FileRecord:
    return FileRecord(kind=kind, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


@dataclasses.dataclass(frozen=True)
class Artifact:
    """A file with what it holds."""

    path: Path
    kind: Kind
    size_bytes: int
    sets: Sets


def read(path: Path) -> Artifact:
    """Reads an artifact of any kind; ConfigError when it cannot be read, FormatError when it is damaged."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return Artifact(path, _kind(content), len(content), _decoded(content, path))


def _decoded(content: bytes, path: Path) -> Sets:
    where = str(path)
    return decode_choices(content, where) if is_choice_file(content) else decode_artifact(content, where)


def _kind(content: bytes) -> Kind:
    if is_choice_file(content):
        return "selection"
    return "tuned parameters" if content.startswith(b"FARMTUNE") else "compiled kernels"


def find(build_folder: Path = BUILD_FOLDER) -> list[Path]:
    """All artifacts below the build folder."""
    return sorted(path for pattern in PATTERNS for path in build_folder.glob(pattern))


@dataclasses.dataclass(frozen=True)
class ArtifactFinding:
    """One thing that was verified of a file."""

    path: Path
    good: bool
    text: str


def verify(path: Path, devices: Mapping[str, Fingerprint]) -> list[ArtifactFinding]:
    """Checks a file's content, its hash against the manifest beside it, and its sets against units, given by name."""
    try:
        artifact = read(path)
    except (ConfigError, FormatError) as error:
        return [ArtifactFinding(path, False, str(error))]
    count = sum(entry_count(one_set) for one_set in artifact.sets)
    findings = [ArtifactFinding(path, True, f"whole: {len(artifact.sets)} sets, {count} entries")]
    findings += _against_manifest(path)
    return findings + [_against_unit(path, artifact.sets, name, device) for name, device in devices.items()]


def entry_count(one_set: ArtifactSet) -> int:
    """Launches, programs or choices of a set."""
    if isinstance(one_set, ChoiceSet):
        return len(one_set.choices)
    return len(one_set.entries) if isinstance(one_set, TunedSet) else len(one_set.binaries)


def _against_manifest(path: Path) -> list[ArtifactFinding]:
    if not (path.parent / MANIFEST_NAME).exists():
        return []
    try:
        record = read_manifest(path.parent).files.get(path.name)
    except FormatError as error:
        return [ArtifactFinding(path, False, str(error))]
    if record is None:
        return [ArtifactFinding(path, False, "not in the manifest")]
    same = hashlib.sha256(path.read_bytes()).hexdigest() == record.sha256
    return [
        ArtifactFinding(path, same, "SHA-256 as in the manifest" if same else "SHA-256 differs from the manifest's")
    ]


def _against_unit(path: Path, sets: Sets, name: str, device: Fingerprint) -> ArtifactFinding:
    """Whether one set is for this device; if not, what the nearest one differs in."""
    differences = [different_fields(one_set.fingerprint, device) for one_set in sets]
    nearest = min(differences, key=len, default=["no set"])
    if not nearest:
        return ArtifactFinding(path, True, f"valid for unit {name!r}")
    return ArtifactFinding(
        path, False, f"not for unit {name!r}: {'; '.join(nearest)}; run `farm tune --soc {device.soc}`"
    )


def merge(paths: Iterable[Path], output: Path) -> list[Replacement]:
    """Writes one file with the sets of all; the choices between entries that several files have.

    Raises ConfigError when the files are not all of one kind.
    """
    files = [read(path) for path in paths]
    first = files[0]
    for other in files:
        if other.kind != first.kind:
            raise ConfigError(
                f"{other.path}: {other.kind}, but {first.path} holds {first.kind}; merge one kind at a time"
            )
    content, replacements = _merged([one_set for artifact in files for one_set in artifact.sets])
    atomic_file.write(output, content)
    return replacements


def _merged(sets: Sequence[ArtifactSet]) -> tuple[bytes, list[Replacement]]:
    """Sets of one kind as the bytes of one file."""
    if any(isinstance(one_set, ChoiceSet) for one_set in sets):
        kept, replacements = merge_choices(one_set for one_set in sets if isinstance(one_set, ChoiceSet))
        return encode_choices(kept), replacements
    if any(isinstance(one_set, KernelSet) for one_set in sets):
        kernels, replacements = merge_kernels(one_set for one_set in sets if isinstance(one_set, KernelSet))
        return encode_kernels(kernels), replacements
    tuned, replacements = merge_tuned(one_set for one_set in sets if isinstance(one_set, TunedSet))
    return encode_tuned(tuned), replacements
