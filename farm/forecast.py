"""What a plan will do, told before anything runs: where each operator runs, conversions, work and memory. Pure."""

from __future__ import annotations

from farm.rows.forecast import ForecastFigures, PlannedOperator
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind


def forecast(plan: Plan) -> ForecastFigures:
    """The figures that a plan tells."""
    operators = tuple(_operator(step) for step in plan.steps)
    on_cpu = sum(operator.device == "cpu" for operator in operators)
    return ForecastFigures(
        operators=operators,
        gpu_operators=len(operators) - on_cpu,
        cpu_fallbacks=on_cpu if plan.target.memory != "cpu" else 0,
        conversions=sum(operator.is_conversion for operator in operators),
        macs=plan.macs,
        weights_bytes=plan.weights_bytes,
        activations_peak_bytes=plan.peak_bytes,
        activations_sum_bytes=plan.sum_bytes,
    )


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
