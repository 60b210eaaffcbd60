"""Rows: one result of one (unit, model, runtime, settings), a failure included. Printed with --json, kept in the store.

A row is made of parts, each a record that one place fills in: whose row it is, how the job ended, what worked under
which conditions, and the figures of its job. A row type inherits its parts, so that each field is declared once and
stands flat in the row's JSON. `farm/rows/result.py` puts the parts together.

`SCHEMA_VERSION` counts incompatible changes; a reader refuses rows of another version.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from pydantic import Field

from farm.rows.device_state import DeviceState
from farm.rows.record import Figure, Record
from farm.rows.status import Status, status_of
from runtime.errors import FarmError
from runtime.plan.artifacts import fingerprint_of
from runtime.target import NOTHING_COMPUTED, Target

SCHEMA_VERSION = 1
OWN_ENGINE = "farmrt"


def runner(runtime: str, engine: str) -> str:
    """The runtime for people, with the engine where that is not farm's own: `cpu`, `cpu of onnxruntime`."""
    return runtime if engine == OWN_ENGINE else f"{runtime} of {engine}"


def versions() -> dict[str, str]:
    """Versions of what had a say in a result, on this machine."""
    return dict(_versions())


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    packages = ("farm", "numpy", "onnx", "onnxruntime")
    return (("python", platform.python_version()), *((name, metadata.version(name)) for name in packages))


class RowHeader(Record):
    """Version of the row's layout, the command that made it, and when (UTC)."""

    schema_version: int = SCHEMA_VERSION
    job: str
    time: str = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))


class Identity(Record):
    """Whose result it is; `engine` is what ran the model, farm's own or an adapter (farm/engines)."""

    unit: str
    soc: str
    device_model: str
    library: str
    model: str
    runtime: str
    engine: str = OWN_ENGINE

    def on(self, device_model: str) -> Identity:
        """The same on a unit that has told its model."""
        return Identity(
            unit=self.unit,
            soc=self.soc,
            device_model=device_model,
            library=self.library,
            model=self.model,
            runtime=self.runtime,
            engine=self.engine,
        )

    @property
    def runner(self) -> str:
        """Its runtime and engine for people."""
        return runner(self.runtime, self.engine)


class Ending(Record):
    """How a job ended; `reason` says in words why it is not ok."""

    status: Status
    reason: str = ""


class Failure(Ending):
    """How a job ended that gave no result."""

    @classmethod
    def of(cls, error: FarmError) -> Failure:
        """The ending of a job that an error ended."""
        return cls(status=status_of(error), reason=str(error))


class Provenance(Record):
    """What a result was made with.

    `fingerprint` is what a tuned or compiled file must match; `settings` is all that the job was asked for.
    `hashes` are the SHA-256 of the files that the unit worked with, by their role: `farmrt`, `plan`, `weights`, ...
    """

    fingerprint: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=versions)
    settings: dict[str, Any] = Field(default_factory=dict)
    hashes: dict[str, str] = Field(default_factory=dict)

    def with_settings(self, settings: Mapping[str, Any]) -> Provenance:
        """The same with further settings; of two values of one setting its own stays."""
        return Provenance(
            fingerprint=self.fingerprint,
            versions=self.versions,
            settings={**settings, **self.settings},
            hashes=self.hashes,
        )


class Throttling(Record):
    """What slowed the unit down while the samples were taken, after so many `repeats` (empty: nothing).

    `waited_share` is the share of the rounds' time that farmrt's threads waited for a core because of other work, 0 to
    1; null: the unit does not tell, or the job has no rounds.
    """

    throttled: str = ""
    repeats: int = 0
    waited_share: Figure = None

    def with_waits(self, share: float | None) -> Throttling:
        """The same with what rounds waited for a core."""
        return Throttling(throttled=self.throttled, repeats=self.repeats, waited_share=share)


class UnitStates(Record):
    """The unit's state before and after the job."""

    state_before: DeviceState | None = None
    state_after: DeviceState | None = None


class Row(UnitStates, Throttling, Provenance, Ending, Identity, RowHeader):
    """What every job's rows have. A job's row type adds the parts with its figures, and sets `job`."""


PLAYED = "played"  # begins what a played GPU says of its driver (docs/emulation.md)


def played_note(fingerprint: Mapping[str, str], runtime: str = "gpu") -> str:
    """What to say of figures of a GPU that is played; empty for any other, and for those of the CPU beside it."""
    if runtime == "cpu" or not fingerprint.get("driver", "").startswith(PLAYED):
        return ""
    nothing = ", and nothing was computed" if fingerprint["driver"].startswith(NOTHING_COMPUTED) else ""
    return f"played: {fingerprint.get('gpu') or 'the GPU'} is a model, no such device took these times{nothing}"


def row_fingerprint(target: Target) -> dict[str, str]:
    """A target's fingerprint as a row's member."""
    return dataclasses.asdict(fingerprint_of(target))


def exit_status(rows: Iterable[Row]) -> int:
    """0 when every row is ok, else 1."""
    return int(any(row.status != Status.OK for row in rows))
