"""Rows of `farm run`: how long a model takes, and how far its outputs are from those that were expected."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from farm.rows.execution import ExecutionFigures
from farm.rows.latency import Latency
from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.row import Row
from farm.rows.status import Status


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


class MeanMetrics(Record):
    """Means over samples, of the samples that have the figure."""

    cosine: Figure = None
    sqnr_db: Figure = None
    pixel_accuracy: Figure = None
    max_abs_error: Figure = None
    max_rel_error: Figure = None


class SampleReport(Record):
    """Outcome of `--input_dir`: how many samples ran, how many have a wrong output, which is worst, and the means.

    The row's own figures are then the worst of all samples, its `outputs` those of the worst sample, and its latencies
    one round of each sample.
    """

    folder: str
    count: int
    wrong: int = 0
    worst: str = ""
    mean: MeanMetrics | None = None


class OutputComparison(Record):
    """The figures of all outputs: the worst of each, None where nothing was compared; then each output's own.

    `reference_sqnr_db`: of the reference against itself with moved inputs, where outputs were judged by that.
    """

    cosine: Figure = None
    sqnr_db: Figure = None
    pixel_accuracy: Figure = None
    max_abs_error: Figure = None
    max_rel_error: Figure = None
    nan_count: int | None = None
    inf_count: int | None = None
    reference_sqnr_db: Figure = None
    outputs: tuple[TensorComparison, ...] = ()
    layers: LayerReport | None = None
    samples: SampleReport | None = None


class NoFile(Record):
    """farmrt was given no such file: an empty object."""


class TunedUse(Record):
    """What farmrt says of the tuned parameters that it was given; `match` is `exact`, `family` or `none`."""

    match: str
    entries: int = 0
    used: int = 0
    reason: str = ""


class KernelsUse(Record):
    """What farmrt says of the compiled kernels that it was given; `match` is `exact` or `none`."""

    match: str
    loaded: int = 0
    built: int = 0
    build_ms: float = 0.0
    reason: str = ""


class SelectionUse(Record):
    """By which kept choice over the whole graph a plan was made.

    `match` is `exact`; or `none`, with the reason why the choice that lies there was not used: the plan is the default
    one. `predicted_ms` and `measured_ms` are the model's time by the choice when it was kept.
    """

    match: str
    file: str = ""
    predicted_ms: Figure = None
    measured_ms: Figure = None
    reason: str = ""


class Placement(Record):
    """How many of a plan's steps, without conversions, run on the GPU and on the CPU.

    `gpu_time_share` is the GPU's share of the time of all steps, 0 to 1, measured where both work; `cpu_types` are the
    types of the operators that a plan for a GPU leaves to the CPU.
    """

    gpu: int
    cpu: int
    gpu_time_share: Figure = None
    cpu_types: tuple[str, ...] = ()


class EngineFigure(Record):
    """A figure that a user's program printed: what it is, which way is better, its samples and their median."""

    name: str
    unit: str
    better: Literal["up", "down"]
    value: float
    samples: tuple[float, ...]

    @classmethod
    def of(cls, name: str, unit: str, better: Literal["up", "down"], samples: Sequence[float]) -> EngineFigure:
        """A figure of at least one sample."""
        return cls(name=name, unit=unit, better=better, value=statistics.median(samples), samples=tuple(samples))

    def of_blocks(self, values: Sequence[float]) -> EngineFigure:
        """The same figure by the medians of blocks, where there are some."""
        return EngineFigure.of(self.name, self.unit, self.better, values) if values else self


class RunFigures(ExecutionFigures):
    """Times of a model, what farmrt allocated for it, whether it used the files of tuning, and how it was executed.

    `file_bytes` is the size on disk of another engine and of the model in its form, `figures` what else it says.
    """

    init_ms: Figure = None
    first_ms: Figure = None
    latency_ms: Latency | None = None
    memory_bytes: dict[str, int] = Field(default_factory=dict)
    tuned: TunedUse | NoFile = NoFile()
    kernels: KernelsUse | NoFile = NoFile()
    selection: SelectionUse | NoFile = NoFile()
    placement: Placement | None = None
    file_bytes: dict[str, int] = Field(default_factory=dict)
    figures: tuple[EngineFigure, ...] = ()


class RunRow(RunFigures, OutputComparison, Row):
    """One run."""

    job: str = "run"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult(Result[RunRow]):
    """What `farm run` measures of a model."""

    figures: RunFigures
    comparison: OutputComparison = dataclasses.field(default_factory=OutputComparison)
