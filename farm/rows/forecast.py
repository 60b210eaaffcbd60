"""Rows of `farm forecast`: what a model will do on a unit."""

import dataclasses
from collections.abc import Iterable

from pydantic import Field

from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.row import Row
from farm.rows.run import NoFile, SelectionUse

# Types of the steps that move elements without computing: the model's own transpositions too.
CONVERSION_TYPES = frozenset({"Transpose", "BufferToImage", "ImageToBuffer", "ImageToImage"})
MIXED = "+"  # between the data types of a plan whose operators have several
CONVERSION_MARK = "->"  # the lowering notes a conversion of its own as `NHWC -> FLAT`


class PlannedOperator(Record):
    """One step of a plan. `note` says why it is on the CPU, or what it converts, `precision` storage and arithmetic.

    `cost_ms` is what it is expected to take, `cost_origin` where that comes from: `measured` on the SoC, on another one
    of its GPU `family`, or `modelled`.
    """

    name: str
    type: str
    device: str
    kernel: str
    variant: str
    macs: int
    output_shape: tuple[int, ...]
    note: str
    cost_ms: Figure = None
    cost_origin: str = ""
    precision: str = ""

    def where(self, with_precision: bool) -> str:
        """Where it runs, and in which precision where that is to be told."""
        return f"{self.device} {self.precision}".strip() if with_precision else self.device

    @property
    def is_conversion(self) -> bool:
        """Whether the step only changes how a tensor lies in memory."""
        return self.type in CONVERSION_TYPES


def has_several_precisions(operators: Iterable[PlannedOperator]) -> bool:
    """Whether it has to be told of each operator in which precision it runs."""
    return len({operator.precision for operator in operators if operator.precision}) > 1


class ChosenOperator(Record):
    """An operator of the graph in the cheapest plan: where it runs and how, and the best other way.

    `cost_ms` is that of its own launches. `alternative_ms` is how much longer the whole plan would take if this
    operator alone ran as `alternative`, conversions included; empty and None where there is no other way.
    """

    name: str
    type: str
    runs_on: str
    cost_ms: Figure = None
    cost_origins: tuple[str, ...] = ()
    alternative: str = ""
    alternative_ms: Figure = None


class FormatConversion(Record):
    """A tensor that is brought from one storage into another (empty: into an output of the plan).

    `source_type` and `element_type` are the element types before and behind it.
    """

    tensor: str
    source: str
    storage: str
    cost_ms: Figure = None
    source_type: str = ""
    element_type: str = ""

    @property
    def is_cast(self) -> bool:
        """Whether it changes the element type."""
        return self.source_type != self.element_type


class CheapestPlan(Record):
    """The plan of least predicted time, as `farm tune` would choose it from the costs that are known now.

    `gap`: by how much another one may be cheaper at most, as a share; 0 is proven. Where the deployment file allows
    several data types, `data_type` is the one of this plan (with `+` between those of a mixed plan, whose operators
    each say theirs), and `by_data_type` has the predicted time of the cheapest plan in each.
    """

    predicted_ms: float
    gap: float
    operators: tuple[ChosenOperator, ...]
    conversions: tuple[FormatConversion, ...]
    data_type: str = ""
    by_data_type: dict[str, float] = Field(default_factory=dict)


class ForecastFigures(Record):
    """Where the operators of a plan run, its work and its memory; `cpu_fallbacks` and `conversions` count operators.

    `conversions` are all that only move elements, the model's own transpositions too; `format_conversions` those that
    bring a tensor into another storage. `predicted_ms` is the sum of all operators' costs, `cost_origins` counts them
    by where these come from, `cost_source` names the SoC of the family's. `selection` is the kept choice that the plan
    is made by, `cheapest` the plan that the costs would choose; None for the CPU, or where one memory type is wanted.

    Modelled costs are made with `measured_peaks`, what the SoC was measured to do at most (multiply-adds and bytes per
    ms, and the ms of a launch), and with what is typical of the GPU family for figures that are missing there. They are
    multiplied by `model_scales`, on buffers, images and the CPU: so many times what the model says took what was timed.
    """

    operators: tuple[PlannedOperator, ...] = ()
    gpu_operators: int | None = None
    cpu_fallbacks: int | None = None
    conversions: int | None = None
    macs: int | None = None
    weights_bytes: int | None = None
    activations_peak_bytes: int | None = None
    activations_sum_bytes: int | None = None
    format_conversions: int | None = None
    predicted_ms: Figure = None
    cost_origins: dict[str, int] = Field(default_factory=dict)
    cost_source: str = ""
    measured_peaks: dict[str, float] = Field(default_factory=dict)
    model_scales: dict[str, float] = Field(default_factory=dict)
    selection: SelectionUse | NoFile = NoFile()
    cheapest: CheapestPlan | None = None


class ForecastRow(ForecastFigures, Row):
    """What one model will do on one unit."""

    job: str = "forecast"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForecastResult(Result[ForecastRow]):
    """What `farm forecast` tells of a model."""

    figures: ForecastFigures
