"""What a plan will do, told before anything runs: where each operator runs, conversions, work and memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farm.rows.row import Record, Row
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind

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


class ForecastRow(Row):
    """What one model will do on one unit; `cpu_fallbacks` and `conversions` are counts of operators."""

    job: str = "forecast"
    operators: tuple[PlannedOperator, ...] = ()
    gpu_operators: int | None = None
    cpu_fallbacks: int | None = None
    conversions: int | None = None
    macs: int | None = None
    weights_bytes: int | None = None
    activations_peak_bytes: int | None = None
    activations_sum_bytes: int | None = None


def forecast(plan: Plan) -> Mapping[str, Any]:
    """The members of a ForecastRow that a plan tells."""
    operators = tuple(_operator(step) for step in plan.steps)
    on_cpu = sum(operator.device == "cpu" for operator in operators)
    return {
        "operators": operators,
        "gpu_operators": len(operators) - on_cpu,
        "cpu_fallbacks": on_cpu if plan.target.memory != "cpu" else 0,
        "conversions": sum(operator.is_conversion for operator in operators),
        "macs": plan.macs,
        "weights_bytes": plan.weights_bytes,
        "activations_peak_bytes": plan.peak_bytes,
        "activations_sum_bytes": plan.sum_bytes,
    }


def _operator(step: Step) -> PlannedOperator:
    return PlannedOperator(
        name=step.name,
        type=step.op,
        device="cpu" if step.kind == StepKind.CPU else "gpu",
        kernel=step.kernel.name,
        variant=step.variant.name,
        macs=step.macs,
        output_shape=step.shown.output_shape,
        note=step.note,
    )
