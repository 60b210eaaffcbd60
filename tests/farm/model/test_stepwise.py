import numpy as np
import pytest

from farm.model.metrics import default_thresholds
from farm.model.stepwise import departures
from runtime.graph import Array
from runtime.types import Precision
from tests.runtime.graphs import GraphMaker


def mean_of(x: Array) -> Array:
    """In the order of the elements, one float after the other."""
    return np.asarray(np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1:] / np.float32(x.shape[1]))


@pytest.mark.parametrize(("fault", "departs"), [(0.0, False), (1e-4, True)])
def test_a_mean_of_what_has_none_is_right_in_any_order(fault: float, departs: bool) -> None:
    """As of rows whose mean was subtracted before: what is left are the last digits of the sum."""
    made = GraphMaker()
    graph = made.finish(made.add("ReduceMean", made.input(16, 768), axes=(1,), keepdims=True))
    (name,), (node,) = graph.inputs, graph.nodes
    x = np.random.default_rng(1).normal(size=(16, 768)).astype(np.float32)
    x -= x.mean(axis=1, keepdims=True)
    values = {name: x, node.output: mean_of(x) + np.float32(fault)}
    found = list(departures(graph, values, Precision.FP32, default_thresholds("gpu", Precision.FP32)))
    assert bool(found) == departs
