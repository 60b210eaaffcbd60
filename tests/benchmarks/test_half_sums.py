"""The simulation of sums in half rounds as halves do, and says that short runs are exact and whole sums are not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import half_sums
from runtime.evaluate import evaluate
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block


def test_rounding_is_that_of_halves() -> None:
    random = np.random.default_rng(1)
    values = (random.uniform(-1, 1, 20_000) * 10.0 ** random.integers(-9, 5, 20_000)).astype(np.float32)
    values = np.concatenate([values, np.float32([0.0, 1.0, 2.0**-24, 2.0**-25, 1.0004883, 65504.0])])
    values = values[np.abs(values) < 65504]
    np.testing.assert_array_equal(half_sums.round_half(values), values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("run", [8, half_sums.WHOLE])
def test_a_sum_is_that_of_half_arithmetic(run: int) -> None:
    """Against NumPy's own halves, product by product."""
    random = np.random.default_rng(2)
    weights, patches = (random.uniform(-1, 1, 60).astype(np.float16) for _ in range(2))
    total, part = np.float32(0.5), np.float16(0.5 if run == half_sums.WHOLE else 0)
    for index, (weight, value) in enumerate(zip(weights, patches, strict=True), 1):
        part = np.float16(part + np.float16(weight * value))
        if run and (index % run == 0 or index == len(weights)):
            total, part = total + np.float32(part), np.float16(0)
    expected = total if run else np.float32(part)
    wide = [values.astype(np.float32) for values in (weights[None], patches[:, None])]
    actual = half_sums.product(wide[0], wide[1], np.float32([[0.5]]), run)
    assert actual == pytest.approx(expected, abs=1e-6)


def test_longer_runs_lose_more() -> None:
    random = np.random.default_rng(3)
    weights, patches = (random.uniform(0, 1, shape).astype(np.float32) for shape in ((4, 2048), (2048, 8)))
    rounded = half_sums.round_half(weights), half_sums.round_half(patches)
    exact = rounded[0].astype(float) @ rounded[1]
    losses = [
        np.abs(half_sums.product(*rounded, np.zeros((4, 1), np.float32), run) / exact - 1).max()
        for run in (8, 64, half_sums.WHOLE)
    ]
    assert losses[0] < 2e-4 < losses[1] < losses[2]
    assert losses[2] > 1e-2


def test_a_network_computes_the_same_but_for_rounding() -> None:
    maker = GraphMaker()
    graph = residual_block(maker)
    inputs = maker.noise()
    expected, actual = evaluate(graph, inputs), half_sums.evaluate_half(graph, inputs, 8)
    for name in graph.outputs:
        np.testing.assert_allclose(actual[name], expected[name], atol=0.02 * np.abs(expected[name]).max())
    assert half_sums.sqnr_db(graph, 8, 1) > half_sums.sqnr_db(graph, half_sums.WHOLE, 1) - 6
