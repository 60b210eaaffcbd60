"""What leaves half's range first, in run order."""

import numpy as np
import pytest

from farm.model.arithmetic_limits import beyond_half
from runtime.oracle.evaluate import evaluate
from tests.runtime.graphs import GraphMaker

FACTORS = [
    ((1.0, 1.0, 1.0), ""),
    ((70_000.0, 1.0, 1.0), "input 'x0' is the first to leave half's range (reaches 70,000 where half holds 65,504)"),
    ((300.0, 300.0, 300.0), "the output of operator 'n_mul0' (Mul) is the first to leave half's range (reaches 90,000"),
    ((0.1, 70_000.0, 0.0), "constant 'k' of operator 'n_mul0' (Mul) is the first to leave half's range (reaches 70,0"),
    ((1.0, 65_504.0, 1.0), ""),
    ((1.0, 65_504.0, -2.0), "the output of operator 'n_mul1' (Mul) is the first to leave half's range (reaches 131,0"),
    ((np.inf, 1.0, 1.0), "input 'x0' is the first to leave half's range (reaches inf"),
    ((np.nan, 1.0, 1.0), "input 'x0' is the first to leave half's range (reaches nan"),
]


@pytest.mark.parametrize(("factors", "text"), FACTORS)
def test_the_first_is_named_with_advice(factors: tuple[float, float, float], text: str) -> None:
    maker = GraphMaker()
    x = maker.input(1, 2)
    product = x
    for factor in factors[1:]:
        product = maker.add("Mul", product, maker.graph.add_constant("k", np.array([factor], np.float32)))
    graph = maker.finish(product)
    told = beyond_half(graph, evaluate(graph, {x: np.array([[0.0, factors[0]]], np.float32)}))
    assert told.startswith(text) and bool(told) == bool(text)
    assert not text or told.endswith("; set data_type: fp32_fp32")
