"""Rows of `farm forecast`: what a model will do on a unit."""

from __future__ import annotations

import dataclasses

from farm.rows.record import Record
from farm.rows.result import Result
from farm.rows.row import Row

# Types of the steps that move elements without computing: the model's own transpositions too.
CONVERSION_TYPES = frozenset({"Transpose", "BufferToImage", "ImageToBuffer"})
CONVERSION_MARK = "->"  # the lowering notes a conversion of its own as `NHWC -> FLAT`


class PlannedOperator(Record):
    """One step of a plan. `note` says why it is on the CPU, or what it converts."""

    name: str
    type: str
    device: str
    kernel: str
    variant: str
    macs: int
    output_shape: tuple[int, ...]
    note: str

    @property
    def is_conversion(self) -> bool:
        """Whether the step only changes how a tensor lies in memory."""
        return self.type in CONVERSION_TYPES


class ForecastFigures(Record):
    """Where the operators of a plan run, its work and its memory; `cpu_fallbacks` and `conversions` count operators."""

    operators: tuple[PlannedOperator, ...] = ()
    gpu_operators: int | None = None
    cpu_fallbacks: int | None = None
    conversions: int | None = None
    macs: int | None = None
    weights_bytes: int | None = None
    activations_peak_bytes: int | None = None
    activations_sum_bytes: int | None = None


class ForecastRow(ForecastFigures, Row):
    """What one model will do on one unit."""

    job: str = "forecast"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForecastResult(Result[ForecastRow]):
    """What `farm forecast` tells of a model."""

    figures: ForecastFigures
