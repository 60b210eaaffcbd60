"""The two files that tuning leaves: tuned parameters and compiled kernels, each a list of sets with a fingerprint.

A file may hold sets of many SoCs (`merge_tuned`, `merge_kernels`); farmrt picks one by fingerprint.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from runtime.errors import FormatError
from runtime.kernels.source import all_sources_hash
from runtime.plan.container import Sections, StringTable, decode_container, encode_container, string_reader
from runtime.plan.records import BINARY, KERNELS_MAGIC, SET, TUNED, TUNED_MAGIC, SectionId
from runtime.target import Target
from runtime.version import RUNTIME_VERSION

Size3 = tuple[int, int, int]
Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """What a tuned or compiled file is valid for; the fields of a SET record, less the device's model name."""

    soc: str
    gpu: str
    driver: str
    opencl: str
    gpu_family: str
    source_hash: str
    runtime_version: str

    @property
    def digest(self) -> str:
        """Names device, driver and runtime in 16 hexadecimal digits of SHA-256.

        The sources' hash is left out: what is stored under this name is found by tuning keys, and each of those holds
        the hash of its own kernel's source.
        """
        fields = (self.soc, self.gpu, self.driver, self.opencl, self.runtime_version)
        return hashlib.sha256("\0".join(fields).encode()).hexdigest()[:16]


def fingerprint_of(target: Target) -> Fingerprint:
    """Fingerprint of a target with this farm's kernel sources and runtime."""
    return Fingerprint(
        soc=target.soc,
        gpu=target.gpu,
        driver=target.driver,
        opencl=target.opencl_version,
        gpu_family=target.gpu_family,
        source_hash=all_sources_hash(),
        runtime_version=RUNTIME_VERSION,
    )


@dataclasses.dataclass(frozen=True)
class TunedEntry:
    """The chosen launch for a tuning key. `block` 0 leaves the weights' packing as in the plan."""

    key: str
    kernel: str
    options: str
    block: int
    work_dim: int
    global_size: Size3
    local_size: Size3
    default_ns: int
    tuned_ns: int


@dataclasses.dataclass(frozen=True)
class TunedSet:
    """Tuned entries of one fingerprint; `device_model` is what they were measured on (after a merge all, by commas)."""

    fingerprint: Fingerprint
    device_model: str
    entries: tuple[TunedEntry, ...]


@dataclasses.dataclass(frozen=True)
class KernelSet:
    """Compiled programs of one fingerprint: `<source hash>|<build options>` -> the driver's binary."""

    fingerprint: Fingerprint
    device_model: str
    binaries: Mapping[str, bytes]


ArtifactSet = TunedSet | KernelSet


def encode_tuned(sets: Sequence[TunedSet]) -> bytes:
    """The bytes of a tuned-parameter file."""
    strings = StringTable()
    entries = [entry for tuned_set in sets for entry in tuned_set.entries]
    rows = np.zeros(len(entries), TUNED)
    for row, entry in zip(rows, entries, strict=True):
        for field in ("key", "kernel", "options"):
            row[field] = strings.add(getattr(entry, field))
        for field in ("block", "work_dim", "global_size", "local_size", "default_ns", "tuned_ns"):
            row[field] = getattr(entry, field)
    headers = _encode_sets([(tuned_set, len(tuned_set.entries)) for tuned_set in sets], strings)
    sections = {SectionId.SET: headers, SectionId.TUNED: rows, SectionId.STRINGS: strings.section()}
    return encode_container(TUNED_MAGIC, sections)


def encode_kernels(sets: Sequence[KernelSet]) -> bytes:
    """The bytes of a compiled-kernel file."""
    strings = StringTable()
    binaries = [item for kernel_set in sets for item in sorted(kernel_set.binaries.items())]
    rows = np.zeros(len(binaries), BINARY)
    offset = 0
    for row, (key, binary) in zip(rows, binaries, strict=True):
        row["offset"], row["size"], row["key"] = offset, len(binary), strings.add(key)
        offset += len(binary)
    sections = {
        SectionId.SET: _encode_sets([(kernel_set, len(kernel_set.binaries)) for kernel_set in sets], strings),
        SectionId.BINARY: rows,
        SectionId.BLOB: np.frombuffer(b"".join(binary for _, binary in binaries), np.uint8),
        SectionId.STRINGS: strings.section(),
    }
    return encode_container(KERNELS_MAGIC, sections)


def _encode_sets(sets: Sequence[tuple[ArtifactSet, int]], strings: StringTable) -> npt.NDArray[Any]:
    rows = np.zeros(len(sets), SET)
    first = 0
    for row, (artifact_set, count) in zip(rows, sets, strict=True):
        for field, value in dataclasses.asdict(artifact_set.fingerprint).items():
            row[field] = strings.add(value)
        row["device_model"] = strings.add(artifact_set.device_model)
        row["first_entry"], row["entry_count"] = first, count
        first += count
    return rows


def decode_tuned(content: bytes, where: str) -> list[TunedSet]:
    """Reads the sets of a tuned-parameter file; a FormatError starts with `where`, the name of the file."""
    return _decode_sets(content, TUNED_MAGIC, where, SectionId.TUNED, _tuned_set)


def decode_kernels(content: bytes, where: str) -> list[KernelSet]:
    """Reads the sets of a compiled-kernel file; a FormatError starts with `where`, the name of the file."""
    return _decode_sets(content, KERNELS_MAGIC, where, SectionId.BINARY, _kernel_set)


def decode_artifact(content: bytes, where: str) -> list[TunedSet] | list[KernelSet]:
    """Reads the sets of either kind of file, which its first bytes tell; raises FormatError for any other."""
    if content.startswith(TUNED_MAGIC):
        return decode_tuned(content, where)
    if content.startswith(KERNELS_MAGIC):
        return decode_kernels(content, where)
    raise FormatError(f"{where}: neither tuned parameters nor compiled kernels; `farm tune` writes both")


def _decode_sets(
    content: bytes,
    magic: bytes,
    where: str,
    section: SectionId,
    build: Callable[[Fingerprint, str, npt.NDArray[Any], Sections, Callable[[int], str]], Item],
) -> list[Item]:
    sections = decode_container(content, magic, where)
    try:
        read = string_reader(sections)
        headers, entries = sections[SectionId.SET], sections[section]
        return [_decode_set(header, entries, sections, read, build) for header in headers]
    except (KeyError, ValueError) as error:
        raise FormatError(f"{where}: inconsistent records ({error}); write it again") from None


def _decode_set(
    header: Any,
    entries: npt.NDArray[Any],
    sections: Sections,
    read: Callable[[int], str],
    build: Callable[[Fingerprint, str, npt.NDArray[Any], Sections, Callable[[int], str]], Item],
) -> Item:
    first, count = int(header["first_entry"]), int(header["entry_count"])
    if first + count > len(entries):
        raise ValueError(f"a set ends at entry {first + count} of {len(entries)}")
    fields = (field.name for field in dataclasses.fields(Fingerprint))
    fingerprint = Fingerprint(**{name: read(int(header[name])) for name in fields})
    return build(fingerprint, read(int(header["device_model"])), entries[first : first + count], sections, read)


def _tuned_set(
    fingerprint: Fingerprint, model: str, rows: npt.NDArray[Any], _: Sections, read: Callable[[int], str]
) -> TunedSet:
    entries = (
        TunedEntry(
            key=read(int(row["key"])),
            kernel=read(int(row["kernel"])),
            options=read(int(row["options"])),
            block=int(row["block"]),
            work_dim=int(row["work_dim"]),
            global_size=_size3(row["global_size"]),
            local_size=_size3(row["local_size"]),
            default_ns=int(row["default_ns"]),
            tuned_ns=int(row["tuned_ns"]),
        )
        for row in rows
    )
    return TunedSet(fingerprint, model, tuple(entries))


def _size3(values: Iterable[Any]) -> Size3:
    x, y, z = (int(value) for value in values)
    return (x, y, z)


def _kernel_set(
    fingerprint: Fingerprint, model: str, rows: npt.NDArray[Any], sections: Sections, read: Callable[[int], str]
) -> KernelSet:
    blob = sections[SectionId.BLOB].tobytes()
    binaries = {}
    for row in rows:
        start, size = int(row["offset"]), int(row["size"])
        if start + size > len(blob):
            raise ValueError(f"a program ends at byte {start + size} of {len(blob)}")
        binaries[read(int(row["key"]))] = blob[start : start + size]
    return KernelSet(fingerprint, model, binaries)


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A merge's choice between two entries of one fingerprint and key; `winner` is the device model of the kept one."""

    key: str
    winner: str
    reason: str


def merge_tuned(sets: Iterable[TunedSet]) -> tuple[list[TunedSet], list[Replacement]]:
    """Merges sets into one for each fingerprint, and returns what was chosen where two entries had the same key.

    The faster one stays; of two that are equally fast, the later.
    """
    merged: dict[Fingerprint, dict[str, tuple[TunedEntry, str]]] = {}
    choices: list[Replacement] = []
    for tuned_set in sets:
        entries = merged.setdefault(tuned_set.fingerprint, {})
        for entry in tuned_set.entries:
            if entry.key in entries and entries[entry.key][0] != entry:
                entries[entry.key] = _faster(entries[entry.key], (entry, tuned_set.device_model), choices)
            else:
                entries[entry.key] = (entry, tuned_set.device_model)
    return [_tuned_of(fingerprint, entries) for fingerprint, entries in merged.items()], choices


def _faster(
    old: tuple[TunedEntry, str], new: tuple[TunedEntry, str], choices: list[Replacement]
) -> tuple[TunedEntry, str]:
    winner, loser = (new, old) if new[0].tuned_ns <= old[0].tuned_ns else (old, new)
    reason = f"{winner[0].tuned_ns} ns against {loser[0].tuned_ns} ns"
    choices.append(Replacement(winner[0].key, winner[1], reason))
    return winner


def _tuned_of(fingerprint: Fingerprint, entries: Mapping[str, tuple[TunedEntry, str]]) -> TunedSet:
    return TunedSet(
        fingerprint, _models(model for _, model in entries.values()), tuple(entry for entry, _ in entries.values())
    )


def _models(names: Iterable[str]) -> str:
    """Device models of a merged set, each once, in order."""
    return ",".join(dict.fromkeys(part for name in names for part in name.split(",")))


def merge_kernels(sets: Iterable[KernelSet]) -> tuple[list[KernelSet], list[Replacement]]:
    """Merges sets into one for each fingerprint, and returns what was chosen where two binaries had the same key.

    The later one stays, since their speed is not recorded.
    """
    merged: dict[Fingerprint, KernelSet] = {}
    choices: list[Replacement] = []
    for kernel_set in sets:
        binaries = merged.get(kernel_set.fingerprint)
        if binaries is None:
            merged[kernel_set.fingerprint] = kernel_set
            continue
        changed = [key for key, binary in kernel_set.binaries.items() if binaries.binaries.get(key, binary) != binary]
        choices += [Replacement(key, kernel_set.device_model, "the later file's binary") for key in changed]
        models = _models([binaries.device_model, kernel_set.device_model])
        merged[kernel_set.fingerprint] = KernelSet(
            kernel_set.fingerprint, models, {**binaries.binaries, **kernel_set.binaries}
        )
    return list(merged.values()), choices
