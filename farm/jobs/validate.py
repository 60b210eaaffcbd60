"""Outputs of a unit against the oracle, and operators against NumPy, as members of a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from farm.config.deployment import Runtime
from farm.jobs.models.prepare import Prepared, TestData
from farm.model import metrics
from farm.model.boundary import channel_axis
from farm.model.metrics import Metrics, Thresholds, Verdict
from farm.rows.row import LayerReport, Status, TensorComparison
from runtime.graph import Graph
from runtime.types import Precision

Array = npt.NDArray[Any]
FIGURES = ("cosine", "sqnr_db", "pixel_accuracy", "max_abs_error", "max_rel_error", "nan_count", "inf_count")


def thresholds_for(prepared: Prepared, runtime: Runtime) -> Thresholds:
    """The deployment file's similarity for the runtime, else the default of runtime and precision."""
    similarity = prepared.settings.validation_threshold.get(runtime)
    if similarity is not None:
        return metrics.thresholds_of_similarity(similarity)
    return metrics.default_thresholds(runtime, prepared.precision(runtime))


def output_members(
    prepared: Prepared, runtime: Runtime, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> dict[str, Any]:
    """Status, reason, the worst figures, and each output's own, in the deployment file's order."""
    thresholds = thresholds_for(prepared, runtime)
    verdicts = {
        name: metrics.verdict(expected[name], actual[name], thresholds, channel_axis(form, expected[name].ndim))
        for name, form in prepared.data_formats.items()
    }
    wrong = [f"{name}: {verdict.reason}" for name, verdict in verdicts.items() if verdict.status != Status.OK]
    return {
        "status": Status.WRONG_RESULT if wrong else Status.OK,
        "reason": "; ".join(wrong),
        "outputs": tuple(_comparison(name, verdict) for name, verdict in verdicts.items()),
        **_figures(metrics.worst(verdict.metrics for verdict in verdicts.values() if verdict.metrics)),
    }


def with_half_range(members: Mapping[str, Any], precision: Precision, data: TestData) -> dict[str, Any]:
    """The members; where the outputs are wrong in half precision, their reason says what leaves its range."""
    if members["status"] == Status.OK or precision == Precision.FP32 or not data.beyond_half:
        return dict(members)
    return {**members, "reason": f"{members['reason']}; {data.beyond_half}"}


def layer_members(
    graph: Graph, expected: Mapping[str, Array], actual: Mapping[str, Array], thresholds: Thresholds, so_far: str
) -> dict[str, Any]:
    """How many operators were compared, and the first, in run order, that departs.

    `so_far` is the reason why the outputs are wrong, empty where they are not.
    """
    nodes = [node for node in graph.nodes if node.output in actual]
    for node in nodes:
        verdict = metrics.verdict(expected[node.output], actual[node.output], thresholds)
        if verdict.status != Status.OK:
            report = LayerReport(compared=len(nodes), first_departure=_comparison(node.name, verdict))
            reason = f"operator {node.name!r} ({node.op}) is the first that departs: {verdict.reason}"
            return {"status": Status.WRONG_RESULT, "reason": reason, "layers": report}
    members: dict[str, Any] = {"layers": LayerReport(compared=len(nodes))}
    if so_far:
        members["reason"] = f"{so_far}; every operator does what the converted graph says, so the conversion is wrong"
    return members


def _comparison(name: str, verdict: Verdict) -> TensorComparison:
    return TensorComparison(name=name, status=verdict.status, reason=verdict.reason, **_figures(verdict.metrics))


def _figures(found: Metrics | None) -> dict[str, Any]:
    return {name: getattr(found, name) for name in FIGURES} if found else {}
