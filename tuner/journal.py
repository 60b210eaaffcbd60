"""The tuning journal: a file that every trial is appended to as it arrives, so that a killed run resumes from it.

One JSON object a line: first `{"journal": "farm-tuning", "version": 1}`, then the trials. A trial is keyed by all that
changes its answer: the fingerprint's digest, the tuning key (kernel, source hash, options, shapes, precision), variant
and local size. Trials of re-tests are written for people to read; a resumed run measures them again. A last line that a
killed process left incomplete is dropped. A candidate that took the runtime down is not tried again with the same
fingerprint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from runtime.errors import ConfigError, FormatError, unwritten
from tuner.shared_journal import SharedJournal
from tuner.trial import FATAL_STATUSES, Candidate, Trial, TrialStatus

VERSION = 1
_HEADER = {"journal": "farm-tuning", "version": VERSION}
HEADER_LINE = json.dumps(_HEADER).encode()
_BATCH = 20  # trials from one fsync to the next: at most so many are lost with the power

TrialKey = tuple[str, str, str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class ForeignTrial:
    """A good trial of another device: its fingerprint's digest and GPU family (empty if unknown), and what it timed."""

    fingerprint: str
    family: str
    kernel: str
    key: str
    variant: str
    ns: float


def foreign_trials(paths: Iterable[Path], fingerprint: str) -> Iterator[ForeignTrial]:
    """The good trials in some journals of all devices but the one of this fingerprint; unreadable files have none."""
    for path in paths:
        content = b""
        with contextlib.suppress(OSError):
            content = path.read_bytes()
        for record in _records(content) if _is_ours(content) else ():
            trial = _from_json(record)
            if record["fingerprint"] != fingerprint and trial.status == TrialStatus.OK and trial.ns:
                device = (record["fingerprint"], str(record.get("gpu_family", "")))
                yield ForeignTrial(*device, record["kernel"], record["key"], record["variant"], trial.typical_ns)


class Journal:
    """Trials of one fingerprint, remembered in a file that others may share.

    Args:
        path: the file; it and its folder are made. None remembers nothing beyond this object.
        fingerprint: digest of the fingerprint that the trials are valid for.
        provenance: written with every trial, for people (the date, say).
        fresh: the file's trials are not used, except that what took the runtime down is not tried again; new ones are
            appended.
        shared: where others who tune the same SoC at the same time are followed; their trials are used as those of an
            earlier run, and appended to the file.

    Attributes:
        has_company: whether trials of others have come since the beginning.
        set_aside: where a journal of another version was moved, None if there was none.
        resumed: number of trials found in the file for this fingerprint.
    """

    def __init__(
        self,
        path: Path | None,
        fingerprint: str,
        provenance: dict[str, str] | None = None,
        fresh: bool = False,
        shared: SharedJournal | None = None,
    ) -> None:
        self._fingerprint = fingerprint
        self._provenance = provenance or {}
        self._fresh = fresh
        self._trials: dict[TrialKey, Trial] = {}
        self._retests: dict[TrialKey, Trial] = {}  # the last good one
        self._fatal: dict[tuple[str, str], set[tuple[int, ...]]] = {}
        self._file: BinaryIO | None = None
        self._unsynced = 0
        self._shared = shared
        self._lines: set[bytes] = set()  # what the file holds, while it is shared
        self.set_aside: Path | None = None
        self.has_company = False
        if path is not None:
            self._open(path)
        self._follow()
        self.has_company = False
        self.resumed = len(self._trials)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Writes what is not yet on the disk; may be called twice."""
        if self._shared:
            self._shared.close()
        if self._file is not None:
            self._sync()
            self._file.close()
            self._file = None

    def find(self, kernel: str, key: str, candidate: Candidate, retest: bool = False) -> Trial | None:
        """The remembered trial of a launch (kernel and tuning key) with a candidate, or its last good re-test."""
        self._follow()
        trials = self._retests if retest else self._trials
        return trials.get((kernel, key, candidate.variant.name, candidate.local_size))

    def of_kernel(self, kernel: str) -> Iterator[tuple[str, str, tuple[int, ...], Trial]]:
        """All trials of a kernel: tuning key, variant name, local size, trial."""
        self._follow()
        for (name, key, variant, local_size), trial in self._trials.items():
            if name == kernel:
                yield key, variant, local_size, trial

    def is_fatal(self, kernel: str, candidate: Candidate) -> bool:
        """Whether a candidate took the runtime down with any launch of the kernel.

        Twice with one variant bans the variant: then it is not the local size that kills.
        """
        self._follow()
        sizes = self._fatal.get((kernel, candidate.variant.name), set())
        return candidate.local_size in sizes or len(sizes) > 1

    def add(self, kernel: str, key: str, candidate: Candidate, trial: Trial, retest: bool = False) -> None:
        """Remembers a trial and appends it to the file; a good trial of a re-test takes the place of no other.

        Raises ConfigError when the file cannot be written.
        """
        record = {
            "fingerprint": self._fingerprint,
            "kernel": kernel,
            "key": key,
            "variant": candidate.variant.name,
            "local": list(candidate.local_size),
            **_to_json(trial),
            **({"retest": True} if retest else {}),
            **self._provenance,
        }
        self._remember(record)
        line = json.dumps(record, allow_nan=False).encode()
        if self._file is not None:
            self._append(line)
        if self._shared:
            self._lines.add(line)
            self._shared.add(line)

    def _follow(self) -> None:
        """Takes over what others have shared since; a trial of one's own stays."""
        for line in self._shared.news() if self._shared else ():
            if line in self._lines:
                continue
            self._lines.add(line)
            if self._file is not None:
                self._append(line)
            for record in _records(b"\n" + line):
                if record["fingerprint"] == self._fingerprint and self._counts(record):
                    self._remember(record, is_own=False)
                    self.has_company = True

    def _remember(self, record: dict[str, Any], is_own: bool = True) -> None:
        local = tuple(record["local"])
        trial = _from_json(record)
        key = (record["kernel"], record["key"], record["variant"], local)
        if record.get("retest") and trial.status == TrialStatus.OK:
            self._retests[key] = trial
            return
        self._trials[key] = trial if is_own else self._trials.get(key, trial)
        if trial.status in FATAL_STATUSES:
            self._fatal.setdefault((record["kernel"], record["variant"]), set()).add(local)

    def _counts(self, record: dict[str, Any]) -> bool:
        """Returns whether a trial of an earlier run counts in this run."""
        return not self._fresh or TrialStatus(record["status"]) in FATAL_STATUSES

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes() if path.exists() else b""
            if content and not _is_ours(content):
                self.set_aside = path.with_name(path.name + ".old")
                path.replace(self.set_aside)
                content = b""
            for record in _records(content):
                if record["fingerprint"] == self._fingerprint and self._counts(record):
                    self._remember(record)
            if self._shared:
                self._lines.update(content.split(b"\n"))
            self._file = path.open("ab", buffering=0)
            if not content:
                self._append(HEADER_LINE)
            elif not content.endswith(b"\n"):
                self._file.write(b"\n")
        except OSError as error:
            raise unwritten(f"{path}: cannot be used as tuning journal", error, ConfigError) from None

    def _append(self, line: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(line + b"\n")
            self._unsynced += 1
            if self._unsynced >= _BATCH:
                self._sync()
        except OSError as error:
            raise unwritten(f"{self._file.name}: a trial cannot be written", error, ConfigError) from None

    def _sync(self) -> None:
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._unsynced = 0


def unite(path: Path, content: bytes) -> int:
    """Appends the lines of another journal that a journal does not have; how many. It is made where there is none.

    Nothing comes of content that is no journal of this version. Raises ConfigError when the file cannot be written.
    """
    if not _is_ours(content):
        return 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        known = path.read_bytes() if path.exists() else b""
        if known and not _is_ours(known):
            path.replace(path.with_name(path.name + ".old"))
            known = b""
        lines = set(known.split(b"\n"))
        new = [line for line in dict.fromkeys(content.split(b"\n")) if line and line not in lines]
        with path.open("ab", buffering=0) as file:
            torn = b"" if not known or known.endswith(b"\n") else b"\n"
            if new:
                file.write(torn + b"\n".join(new) + b"\n")
    except OSError as error:
        raise unwritten(f"{path}: cannot be used as tuning journal", error, ConfigError) from None
    return len(new)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The trials of a journal that is only read, of every fingerprint; empty where there is no file.

    Raises FormatError where the file is no journal, of another version, or cannot be read.
    """
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from None
    if content and not _is_ours(content):
        raise FormatError(f"{path}: no tuning journal of version {VERSION}")
    return list(_records(content))


def trial_of(record: dict[str, Any]) -> Trial:
    """The trial of a record."""
    return _from_json(record)


def _is_ours(content: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return bool(json.loads(content.split(b"\n", 1)[0]) == _HEADER)
    return False


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    """Trial records; a line that is torn or lacks a field is passed over: that trial is measured again."""
    for line in content.split(b"\n")[1:]:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            record = json.loads(line)
            _from_json(record)
            if all(isinstance(record[name], str) for name in ("fingerprint", "kernel", "key", "variant")):
                yield record | {"local": [int(size) for size in record["local"]]}


def _fields() -> list[dataclasses.Field[Any]]:
    """A trial's fields that a journal keeps."""
    return [field for field in dataclasses.fields(Trial) if field.name != "beside"]


def _to_json(trial: Trial) -> dict[str, Any]:
    """The trial's fields that are not their default. JSON has no NaN: such a value is left out, the status says why."""
    values = dataclasses.asdict(trial)
    values["ns"] = [ns for ns in trial.ns if math.isfinite(ns)]
    values["own_ns"] = tuple(ns for ns in trial.own_ns if math.isfinite(ns))
    defaults = {field.name: field.default for field in _fields()}
    kept = ((name, values[name]) for name in defaults)
    return {name: value for name, value in kept if value != defaults[name] and not _is_no_number(value)}


def _is_no_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _from_json(record: dict[str, Any]) -> Trial:
    names = {field.name for field in _fields()}
    values = {name: value for name, value in record.items() if name in names}
    values["status"] = TrialStatus(values["status"])
    for name in ("ns", "own_ns"):
        values[name] = tuple(float(ns) for ns in values.get(name, ()))
    return Trial(**values)
