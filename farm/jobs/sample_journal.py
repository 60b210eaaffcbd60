"""Keeps what samples of a run gave, as they come: a run that is interrupted goes on where it was.

A file of JSON lines, one a sample, keyed by all that changes its answer. It lies in the build folder until the run has
its row; a last line that a killed process left incomplete is dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from farm.model.sample_folder import Sample
from farm.rows.record import Record
from farm.rows.row import Ending
from farm.rows.run import OutputComparison
from runtime.errors import JobError, unwritten


class SampleOutcome(Record):
    """What one sample gave: the time of its round, and its outputs compared with those that were expected."""

    key: str
    name: str
    round_ms: float
    ending: Ending
    comparison: OutputComparison


class SampleJournal:
    """The outcomes of one model on one unit and runtime.

    Args:
        path: the file; it and its folder are made.
        hashes: of all that an outcome follows from but the samples: programs, plan, settings.
    """

    def __init__(self, path: Path, hashes: Mapping[str, str]) -> None:
        self._path = path
        self._base = repr(sorted(hashes.items()))
        self._known: dict[str, SampleOutcome] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(ValidationError):
                    outcome = SampleOutcome.model_validate_json(line)
                    self._known[outcome.key] = outcome

    def key(self, sample: Sample) -> str:
        """Names a sample's outcome by the content of its files."""
        digest = hashlib.sha256(self._base.encode())
        for name, path in sorted(sample.files.items()):
            with path.open("rb") as file:
                digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()} ".encode())
        return digest.hexdigest()

    def find(self, key: str) -> SampleOutcome | None:
        """The outcome that is known, if one is."""
        return self._known.get(key)

    def add(self, outcome: SampleOutcome) -> None:
        """Appends an outcome; JobError where it cannot be written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(b"\n" * self._ends_inside_a_line() + outcome.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise unwritten(f"{self._path}: cannot be written", error, JobError) from None

    def remove(self) -> None:
        """Forgets everything: the run has its row."""
        self._path.unlink(missing_ok=True)

    def _ends_inside_a_line(self) -> bool:
        content = self._path.read_bytes()[-1:]
        return bool(content) and content != b"\n"
