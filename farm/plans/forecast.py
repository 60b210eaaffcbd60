"""What a plan will do, told before anything runs: where each operator runs, conversions, work and memory. Pure."""

from collections import Counter
from collections.abc import Sequence

from farm.rows.forecast import CheapestPlan, ChosenOperator, ForecastFigures, FormatConversion, PlannedOperator
from runtime.graph import Graph
from runtime.lowering.launch import Launch
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind
from runtime.selection.costs import LaunchCosts
from runtime.selection.evaluation import PlanConversion
from runtime.selection.selection import GraphSelection
from runtime.types import ELEMENT_NAMES


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


def with_costs(figures: ForecastFigures, launches: Sequence[Launch], costs: LaunchCosts) -> ForecastFigures:
    """The figures with what each step is expected to cost; `launches` are the plan's, in the order of its steps."""
    operators = tuple(
        operator.model_copy(update={"cost_ms": costs.milliseconds(launch), "cost_origin": costs.origin(launch).value})
        for operator, launch in zip(figures.operators, launches, strict=True)
    )
    return figures.model_copy(
        update={
            "operators": operators,
            "predicted_ms": sum(operator.cost_ms or 0.0 for operator in operators),
            "cost_origins": dict(Counter(operator.cost_origin for operator in operators)),
        }
    )


def cheapest_plan(graph: Graph, selection: GraphSelection) -> CheapestPlan:
    """What was selected for each operator of a graph, and why."""
    operators = []
    for node in graph.nodes:
        chosen = selection.nodes[node.output]
        more_ms = None if chosen.alternative_ms is None else chosen.alternative_ms - selection.milliseconds
        operators.append(
            ChosenOperator(
                name=node.name or node.output,
                type=node.op,
                runs_on=str(chosen.choice),
                cost_ms=chosen.milliseconds,
                cost_origins=tuple(origin.value for origin in chosen.origins),
                alternative=str(chosen.alternative or ""),
                alternative_ms=more_ms,
            )
        )
    conversions = tuple(map(_conversion, selection.conversions))
    return CheapestPlan(
        predicted_ms=selection.milliseconds, gap=selection.gap, operators=tuple(operators), conversions=conversions
    )


def _conversion(converted: PlanConversion) -> FormatConversion:
    storage = converted.storage.name if converted.storage is not None else ""
    return FormatConversion(
        tensor=converted.tensor,
        source=converted.source.name,
        storage=storage,
        cost_ms=converted.milliseconds,
        source_type=ELEMENT_NAMES[converted.source_element],
        element_type=ELEMENT_NAMES[converted.element],
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
        precision="" if step.precision is None else step.precision.label,
    )
