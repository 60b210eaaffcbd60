"""What a converter leaves under its framework's names becomes ONNX that computes it; no framework is needed here."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper

from runtime.convert import convert
from runtime.frameworks.programs.onnx_coverage import check_operators, express_operators
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import onnx_model, random_array

CUBIC, ROOT = 0.044715, math.sqrt(2 / math.pi)
CASES: Mapping[str, tuple[str, Mapping[str, Any], Callable[[float], float]]] = {
    "erfc": ("Erfc", {}, math.erfc),
    "gelu": ("TFL_GELU", {}, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "gelu by tanh": (
        "TFL_GELU",
        {"approximate": 1},
        lambda x: 0.5 * x * (1 + math.tanh(ROOT * (x + CUBIC * x**3))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_the_framework_is_expressed_in_onnx(name: str) -> None:
    operator, attributes, function = CASES[name]
    model = onnx_model([helper.make_node(operator, ["x"], ["y"], **attributes)], {"x": (2, 3, 4)}, ("y",), {})
    express_operators(model)
    check_operators(model, "model")
    graph, _ = convert(model)
    x = random_array((2, 3, 4), 1, -3.0, 3.0)
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], np.vectorize(function)(x), rtol=1e-5, atol=1e-6)
