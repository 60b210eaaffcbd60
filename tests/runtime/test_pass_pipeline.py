"""All passes together change no output of any graph, since a pass may only rewrite how it is computed."""

import copy

import numpy as np
import pytest
from hypothesis import assume, given, settings

from runtime.graph import Graph
from runtime.operators.table import check_graph
from runtime.oracle.evaluate import evaluate
from runtime.passes.pipeline import PASSES, run_passes
from tests.opencl import EXHAUSTIVE
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs

Case = tuple[Graph, GraphMaker]


def check_values_stay(case: Case) -> None:
    """Runs all passes and compares the outputs in float64, where only a wrong rewrite differs by more than rounding."""
    graph, make = case
    check_graph(graph)
    inputs = {name: value.astype(np.float64) for name, value in make.noise().items()}
    outputs, before = list(graph.outputs), evaluate(graph, inputs)
    largest = max([1.0, *(np.abs(before[node.output]).max() for node in graph.nodes if node.op != "Pad")])
    assume(largest < 1e3)
    run_passes(graph)
    check_graph(graph)
    assert graph.outputs == outputs
    after = evaluate(graph, inputs)
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], atol=1e-5 * largest, rtol=0)


@pytest.mark.slow
@settings(max_examples=1000 if EXHAUSTIVE else 200)
@given(case=random_graphs())
def test_passes_change_no_output_of_many_graphs(case: Case) -> None:
    check_values_stay(case)


@settings(max_examples=30)
@given(case=random_graphs())
def test_passes_reach_a_fixed_point(case: Case) -> None:
    graph, _ = case
    run_passes(graph)
    again = copy.deepcopy(graph)
    assert not any(report.changes for report in run_passes(again))
    assert again.nodes == graph.nodes


def test_reports_name_every_pass_in_order_and_what_it_did() -> None:
    make = GraphMaker()
    conv = make.conv(make.input(1, 2, 4, 4), 2)
    normalized = make.add("BatchNormalization", conv, make.weights(2), make.weights(2))
    reports = run_passes(make.finish(make.add("Relu", normalized)))
    assert [report.name for report in reports] == list(PASSES)
    changes = {report.name: report.changes for report in reports if report.changes}
    assert changes == {
        "batch-norm folding": ["n_batchnormalization1 into n_conv0"],
        "activation fusion": ["n_relu2 into n_conv0"],
    }
