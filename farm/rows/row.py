"""Rows: one result of one (unit, model, runtime, settings), a failure included. Printed with --json, kept in the store.

`SCHEMA_VERSION` counts incompatible changes; a reader refuses rows of another version.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import math
import platform
import statistics
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runtime.artifacts import fingerprint_of
from runtime.errors import (
    BuildError,
    DeadlineError,
    DeviceError,
    DeviceLostError,
    FarmError,
    UnsupportedError,
)
from runtime.target import Target

SCHEMA_VERSION = 1


class Status(enum.StrEnum):
    """How a job ended."""

    OK = "ok"
    WRONG_RESULT = "wrong_result"
    UNSUPPORTED = "unsupported"
    BUILD_FAILED = "build_failed"
    TIMEOUT = "timeout"
    DEVICE_LOST = "device_lost"
    FAILED = "failed"


def status_of(error: FarmError) -> Status:
    """The status of a row whose job ended with this error."""
    if isinstance(error, DeviceError):
        return {"build_failed": Status.BUILD_FAILED, "unsupported": Status.UNSUPPORTED}.get(error.kind, Status.FAILED)
    for kind, status in _STATUS_OF_ERROR:
        if isinstance(error, kind):
            return status
    return Status.FAILED


_STATUS_OF_ERROR: tuple[tuple[type[FarmError], Status], ...] = (
    (UnsupportedError, Status.UNSUPPORTED),
    (BuildError, Status.BUILD_FAILED),
    (DeadlineError, Status.TIMEOUT),
    (DeviceLostError, Status.DEVICE_LOST),
)


def _finite_or_none(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite_or_none)]


class Record(BaseModel):
    """Base of what a row holds."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Latency(Record):
    """Wall time of the measured rounds in milliseconds; `samples` are the rounds in order, the first run apart."""

    median: float
    p90: float
    min: float
    max: float
    std: float
    samples: tuple[float, ...]

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Latency:
        """Summary of at least one sample."""
        ordered = sorted(samples_ms)
        return cls(
            median=statistics.median(ordered),
            p90=ordered[math.ceil(0.9 * len(ordered)) - 1],
            min=ordered[0],
            max=ordered[-1],
            std=statistics.pstdev(ordered),
            samples=tuple(samples_ms),
        )


class DeviceState(Record):
    """What could spoil a measurement, read on the unit; None or empty where it does not tell.

    Clocks are each core's: now, and the most that the unit allows itself now. `temperature_c` is the chip's hottest
    part, `thermal_status` Android's (0 none, 1 light, 2 moderate, 3 severe, 4 critical, 5 emergency, 6 shutdown),
    `cooling` the highest step by which the kernel slows the CPU or GPU down; `governors` are by core range, and `gpu`.
    """

    load_average: Figure = None
    clock_mhz: tuple[float, ...] = ()
    clock_limit_mhz: tuple[float, ...] = ()
    gpu_clock_mhz: Figure = None
    temperature_c: Figure = None
    skin_temperature_c: Figure = None
    thermal_status: int | None = None
    cooling: int | None = None
    battery_percent: int | None = None
    battery_temperature_c: Figure = None
    charging: bool | None = None
    screen_on: bool | None = None
    low_power: bool | None = None
    governors: dict[str, str] = Field(default_factory=dict)
    free_bytes: int | None = None


class TensorComparison(Record):
    """One output compared with its reference."""

    name: str
    status: Status
    reason: str = ""
    cosine: Figure = None
    sqnr_db: Figure = None
    pixel_accuracy: Figure = None
    max_abs_error: Figure = None
    max_rel_error: Figure = None
    nan_count: int = 0
    inf_count: int = 0


class LayerReport(Record):
    """Outcome of `--layers`: how many operators were compared, and the first that departs (None: all agree)."""

    compared: int
    first_departure: TensorComparison | None = None


def versions() -> dict[str, str]:
    """Versions of what had a say in a result, on this machine."""
    return dict(_versions())


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    packages = ("farm", "numpy", "onnx", "onnxruntime")
    return (("python", platform.python_version()), *((name, metadata.version(name)) for name in packages))


class Row(Record):
    """What every job's rows have. Jobs add their figures in a subclass and set `job`.

    `fingerprint` is what a tuned or compiled file must match; `settings` is all that the job was asked for.
    `hashes` are the SHA-256 of the files that the unit worked with, by their role: `farmrt`, `plan`, `weights`, ...
    `throttled` says what slowed the unit down while the samples were taken, after so many `repeats` (empty: nothing).
    """

    schema_version: int = SCHEMA_VERSION
    job: str
    time: str = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"))
    unit: str
    soc: str
    device_model: str
    library: str
    model: str
    runtime: str
    status: Status
    reason: str = ""
    fingerprint: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=versions)
    settings: dict[str, Any] = Field(default_factory=dict)
    hashes: dict[str, str] = Field(default_factory=dict)
    throttled: str = ""
    repeats: int = 0
    state_before: DeviceState | None = None
    state_after: DeviceState | None = None


class RunRow(Row):
    """One run. The comparison's figures are the worst over the outputs, None where nothing was compared.

    `tuned` and `kernels` are farmrt's word on the files that it was given, `memory_bytes` on what it allocated.
    """

    job: str = "run"
    cosine: Figure = None
    sqnr_db: Figure = None
    pixel_accuracy: Figure = None
    max_abs_error: Figure = None
    max_rel_error: Figure = None
    nan_count: int | None = None
    inf_count: int | None = None
    outputs: tuple[TensorComparison, ...] = ()
    layers: LayerReport | None = None
    init_ms: Figure = None
    first_ms: Figure = None
    latency_ms: Latency | None = None
    memory_bytes: dict[str, int] = Field(default_factory=dict)
    tuned: dict[str, Any] = Field(default_factory=dict)
    kernels: dict[str, Any] = Field(default_factory=dict)


class TuneRow(RunRow):
    """One tuning. `latency_ms`, `init_ms` and `first_ms` are those of the tuned model.

    `gain_percent` is the time saved of the default's, with its 95 % confidence interval; both were measured in turns.
    `trials` and `device_s` are what the search measured anew, `launches_tuned` those whose default was beaten.
    """

    job: str = "tune"
    default_ms: Figure = None
    tuned_ms: Figure = None
    gain_percent: Figure = None
    gain_ci: tuple[float, float] | None = None
    trials: int = 0
    device_s: float = 0.0
    artifacts: tuple[str, ...] = ()
    launches: int = 0
    launches_tuned: int = 0
    default_latency_ms: Latency | None = None
    default_init_ms: Figure = None


def row_fingerprint(target: Target) -> dict[str, str]:
    """A target's fingerprint as a row's member."""
    return dataclasses.asdict(fingerprint_of(target))


def exit_status(rows: Iterable[Row]) -> int:
    """0 when every row is ok, else 1."""
    return int(any(row.status != Status.OK for row in rows))


def to_json(rows: Sequence[Row]) -> str:
    """The `--json` document: `{"rows": [...]}`."""
    return json.dumps({"rows": [row.model_dump(mode="json") for row in rows]}, allow_nan=False)
