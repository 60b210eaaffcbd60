"""Outputs of a unit against the oracle, and operators against NumPy, as parts of a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from farm.config.deployment import Runtime
from farm.jobs.models.prepare import Prepared, TestData
from farm.model import metrics
from farm.model.arithmetic_limits import longest_sum
from farm.model.boundary import channel_axis
from farm.model.metrics import Metrics, Thresholds
from farm.rows.result import OK
from farm.rows.row import Ending
from farm.rows.run import LayerReport, MeanMetrics, OutputComparison, TensorComparison
from farm.rows.status import Status
from runtime.errors import NoReferenceError
from runtime.graph import Array, Graph
from runtime.target import Target
from runtime.types import ElementType, Precision


def thresholds_for(prepared: Prepared, target: Target) -> Thresholds:
    """What the outputs of a plan for a target must keep."""
    return thresholds_of(prepared, runtime_of(target), target.precision)


def runtime_of(target: Target) -> Runtime:
    """The runtime that plans for a target are of."""
    return "cpu" if target.memory == "cpu" else "gpu"


def thresholds_of(prepared: Prepared, runtime: Runtime, precision: Precision) -> Thresholds:
    """The deployment file's similarity for the runtime, else the default of runtime, precision and longest sum."""
    similarity = prepared.settings.validation_threshold.get(runtime)
    if similarity is not None:
        return metrics.thresholds_of_similarity(similarity)
    thresholds = metrics.for_sums(metrics.default_thresholds(runtime, precision), longest_sum(prepared.graph))
    return metrics.for_movement(thresholds, prepared.moved_by_rounding(precision) if prepared.is_quantized else None)


def further_thresholds(prepared: Prepared, target: Target) -> tuple[Thresholds, Thresholds]:
    """Of outputs for further inputs, and of inner tensors: the default, or the file's similarity if that is looser."""
    runtime = runtime_of(target)
    asked = [thresholds_for(prepared, target)] if runtime in prepared.settings.validation_threshold else []
    outputs, inner = (
        metrics.loosest(metrics.for_sums(table[runtime, target.precision], longest_sum(prepared.graph)), *asked)
        for table in (metrics.DEFAULT_THRESHOLDS, metrics.INNER_THRESHOLDS)
    )
    return outputs, inner


@dataclasses.dataclass(frozen=True)
class Validation:
    """Whether outputs are what they should be, and their figures; empty where nothing was compared."""

    ending: Ending = OK
    comparison: OutputComparison = dataclasses.field(default_factory=OutputComparison)

    @property
    def is_ok(self) -> bool:
        """Whether no output is wrong."""
        return self.ending.status == Status.OK

    @property
    def is_moved(self) -> bool:
        """Whether they were judged by how near the reference is to itself when rounding turns its steps or choices."""
        return self.comparison.reference_sqnr_db is not None

    def beside(self, movement: Metrics | None) -> Validation:
        """The same, judged by how far the reference moves by rounding, where that is known."""
        if movement is None:
            return self
        update = {"reference_sqnr_db": movement.sqnr_db}
        return dataclasses.replace(self, comparison=self.comparison.model_copy(update=update))

    def with_layers(self, report: LayerReport, ending: Ending) -> Validation:
        """Returns the validation with the comparison of all operators, which may change its ending."""
        return Validation(ending, self.comparison.model_copy(update={"layers": report}))


def compare_outputs(
    prepared: Prepared, target: Target, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> Validation:
    """Compares all outputs of a plan for a target with what is expected; not those of a GPU that computes nothing.

    Of a model that decides by floats, outputs that differ may be as far from the reference as it is from itself.
    """
    if not target.computes:
        return Validation()
    return _compared(prepared, runtime_of(target), target.precision, expected, actual)


def _compared(
    prepared: Prepared,
    runtime: Runtime,
    precision: Precision,
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> Validation:
    thresholds = thresholds_of(prepared, runtime, precision)
    validation = compare_within(thresholds, prepared, expected, actual)
    if prepared.is_quantized and runtime not in prepared.settings.validation_threshold:
        return validation.beside(prepared.moved_by_rounding(precision))  # the thresholds are made of it
    movement = None if validation.is_ok or not prepared.decides else prepared.moved_by_rounding(precision)
    if movement is None:
        return validation
    moved = compare_within(metrics.for_movement(thresholds, movement), prepared, expected, actual)
    return moved.beside(movement) if moved.is_ok else validation


def excess_of_outputs(
    prepared: Prepared, target: Target, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> dict[str, float]:
    """How many times the noise power that it may have each output of a plan for a target has."""
    thresholds = thresholds_for(prepared, target)
    return {
        name: metrics.noise_excess(metrics.compare(expected[name], actual[name]), thresholds)
        for name in prepared.data_formats
    }


def compare_within(
    thresholds: Thresholds, prepared: Prepared, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> Validation:
    """Compares all outputs: the worst figures of all, and each output's own, in the deployment file's order."""
    verdicts = {
        name: metrics.judge_output(
            expected[name], actual[name], thresholds, channel_axis(data_format, expected[name].ndim)
        )
        for name, data_format in prepared.data_formats.items()
    }
    outputs = tuple(_tensor_comparison(name, verdict) for name, verdict in verdicts.items())
    worst = metrics.worst(verdict.metrics for verdict in verdicts.values() if verdict.metrics)
    return Validation(_ending_of(verdicts), _output_comparison(worst, outputs))


def compare_with_reference(
    prepared: Prepared,
    runtime: Runtime,
    precision: Precision,
    reference: Callable[[], Mapping[str, Array]],
    actual: Mapping[str, Array],
) -> Validation:
    """Compares as `compare_outputs` with what the reference computes; where it has none, that is the ending."""
    try:
        expected = reference()
    except NoReferenceError as error:
        return Validation(Ending(status=Status.NO_REFERENCE, reason=str(error)))
    return _compared(prepared, runtime, precision, expected, actual)


def _ending_of(verdicts: Mapping[str, metrics.OutputVerdict]) -> Ending:
    """Wrong where an output is, else without a reference where one has none."""
    for status in (Status.WRONG_RESULT, Status.NO_REFERENCE):
        reasons = [f"{name}: {verdict.reason}" for name, verdict in verdicts.items() if verdict.status == status]
        if reasons:
            return Ending(status=status, reason="; ".join(reasons))
    return OK


def with_half_range(validation: Validation, target: Target, data: TestData) -> Validation:
    """A validation whose reason, where outputs are wrong with tensors in half, also says what leaves half's range."""
    ending = validation.ending
    if ending.status != Status.WRONG_RESULT or target.element != ElementType.F16 or not data.beyond_half:
        return validation
    return dataclasses.replace(
        validation, ending=Ending(status=ending.status, reason=f"{ending.reason}; {data.beyond_half}")
    )


def compare_layers(
    graph: Graph,
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
    thresholds: Thresholds,
    validation: Validation,
) -> Validation:
    """Compares every operator's output, and adds to a validation the first operator, in run order, that departs."""
    nodes = [node for node in graph.nodes if node.output in actual]
    for node in nodes:
        verdict = metrics.judge_output(expected[node.output], actual[node.output], thresholds)
        if verdict.status == Status.WRONG_RESULT:
            report = LayerReport(compared=len(nodes), first_departure=_tensor_comparison(node.name, verdict))
            reason = f"operator {node.name!r} ({node.op}) is the first that departs: {verdict.reason}"
            return validation.with_layers(report, Ending(status=Status.WRONG_RESULT, reason=reason))
    return validation.with_layers(LayerReport(compared=len(nodes)), _blamed_on_conversion(validation.ending))


def _blamed_on_conversion(ending: Ending) -> Ending:
    """How a job ends whose operators are all right: where its outputs are not, the conversion is wrong."""
    if ending.status != Status.WRONG_RESULT:
        return ending
    blame = "every operator does what the converted graph says, so the conversion is wrong"
    return Ending(status=ending.status, reason=f"{ending.reason}; {blame}")


_COMPARED = (*MeanMetrics.model_fields, "nan_count", "inf_count")


def _figures(compared: Metrics | None) -> dict[str, Any]:
    """The members of rows that say how far tensors are from each other; none where nothing was compared."""
    return {name: getattr(compared, name) for name in _COMPARED} if compared else {}


def _output_comparison(worst: Metrics | None, outputs: tuple[TensorComparison, ...]) -> OutputComparison:
    return OutputComparison(**_figures(worst), outputs=outputs)


def _tensor_comparison(name: str, verdict: metrics.OutputVerdict) -> TensorComparison:
    return TensorComparison(name=name, status=verdict.status, reason=verdict.reason, **_figures(verdict.metrics))
