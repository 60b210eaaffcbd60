"""Constants of one element give their axes to what they are joined with, and no fusion takes or loses these."""

import numpy as np
import pytest
from onnx import NodeProto, helper

from runtime.convert import convert
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import onnx_model, random_array, run_onnxruntime

Step = tuple[str, list[str], str]
CLIP = ("Clip", ["a", "low", "high"], "b")
SQUARE_ROOT = ("Sqrt", ["variance"], "deviation")
CHAINS: dict[str, list[Step]] = {
    "HardSwish": [("Add", ["x", "3"], "a"), CLIP, ("Div", ["b", "6"], "c"), ("Mul", ["x", "c"], "y")],
    "Swish": [("Mul", ["2", "x"], "a"), ("Sigmoid", ["a"], "b"), ("Mul", ["x", "b"], "y")],
    "Gelu": [
        *[("Div", ["x", "1.4142135"], "a"), ("Erf", ["a"], "b"), ("Add", ["b", "1"], "c")],
        *[("Mul", ["x", "c"], "d"), ("Mul", ["d", "0.5"], "y")],
    ],
    "LayerNormalization": [
        *[("Mean", ["x"], "mean"), ("Sub", ["x", "mean"], "a"), ("Mul", ["a", "a"], "b"), ("Mean", ["b"], "c")],
        *[("Add", ["c", "0.5"], "variance"), SQUARE_ROOT, ("Div", ["a", "deviation"], "y")],
    ],
}


def written(step: Step) -> NodeProto:
    op, inputs, output = step
    if op == "Mean":
        return helper.make_node("ReduceMean", inputs, [output], output, axes=[3], keepdims=1)
    return helper.make_node(op, inputs, [output], output)


def agreed(steps: list[Step], rank: int) -> set[str]:
    """The operators that are left where the number constants have so many axes; the result is ONNX Runtime's."""
    numbers = {name for _, names, _ in steps for name in names if name.replace(".", "").isdigit()}
    constants = {name: np.full((1,) * rank, float(name)) for name in numbers} | {"low": 0.0, "high": 6.0}
    model = onnx_model([written(step) for step in steps], {"x": (1, 4, 5, 5)}, ["y"], constants)
    inputs = {"x": random_array((1, 4, 5, 5))}
    graph, _ = convert(model)
    found, (expected,) = evaluate(graph, inputs)["y"], run_onnxruntime(model, inputs)
    assert found.shape == expected.shape == graph.shape("y")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return {node.op for node in graph.nodes}


@pytest.mark.parametrize("rank", [0, 4, 5, 6])
@pytest.mark.parametrize("name", CHAINS)
def test_a_fused_operator_is_followed_by_the_axes_that_constants_gave(name: str, rank: int) -> None:
    assert agreed(CHAINS[name], rank) == ({name} if rank <= 4 else {name, "Reshape"})


def test_a_mean_over_axes_that_an_exponent_moved_is_no_variance() -> None:
    """The square has five axes, so that its axis 3 is the third of x."""
    steps = CHAINS["LayerNormalization"].copy()
    steps[2] = ("Pow", ["a", "2"], "b")
    assert agreed(steps, 4) == {"LayerNormalization"}
    assert "LayerNormalization" not in agreed(steps, 5)
