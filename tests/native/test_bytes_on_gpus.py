"""Between convolutions on a GPU's buffers quantised tensors lie in bytes, and compute what the oracle does."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.reference.executor import Executor
from runtime.target import Target
from runtime.types import Precision
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import run_on
from tests.native.test_quantized_convolution import rounded, rounding, whole_weights
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker

pytestmark = pytest.mark.opencl
STEP = 0.03
MOBILE = Target("phone", "host", gpu_family="mali-bifrost")


def chain() -> tuple[Graph, dict[str, Array]]:
    """Direct, depthwise and 1x1 convolutions with a zero point, whose padding is not 0 in bytes; one sum."""
    maker = GraphMaker()

    def conv(x: str, out: int, k: int, **attrs: object) -> str:
        y = maker.conv(x, out, k, activation="fake_quantize", **attrs)
        maker.graph.nodes[-1].attrs |= rounded(maker, y, step=STEP)
        whole_weights(maker, maker.graph.nodes[-1].inputs[1])
        return y

    first = conv(rounding(maker, maker.input(1, 3, 9, 8)), 16, 3)
    depthwise = conv(conv(first, 16, 3, group=16), 24, 1)
    wide = conv(depthwise, 20, 3, strides=(2, 2))
    after = conv(wide, 40, 1)
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(maker.conv(after, 12, 1), maker.add("Relu", conv(wide, 8, 1))), inputs


def codes(plan: Plan) -> list[int]:
    """Of each convolution what lies in bytes: 1 the output, 4 the input."""
    return [step.defines.get("BYTES", 0) for step in plan.steps if "Conv" in step.op]


def check(found: dict[str, Array], graph: Graph, inputs: dict[str, Array]) -> None:
    """One in a hundred may be a step off, where a sum lies in the middle of two."""
    expected = evaluate(graph, inputs)
    for name in graph.outputs:
        error = np.abs(found[name].reshape(expected[name].shape) - expected[name])
        assert np.quantile(error, 0.97) < 1e-4 and error.max() < 3 * STEP, name


def error_of(plan: Plan, graph: Graph, inputs: dict[str, Array]) -> float:
    found, expected = Executor(encode_plan(plan), plan.data, default_device()).run(inputs), evaluate(graph, inputs)
    return max(
        float(np.abs(found[name].reshape(expected[name].shape) - expected[name]).mean()) for name in graph.outputs
    )


def test_convolutions_pass_bytes_on() -> None:
    graph, inputs = chain()
    plan = lower(graph, MOBILE)
    assert codes(plan) == [1, 5, 5, 5, 5, 4, 4]
    check(Executor(encode_plan(plan), plan.data, default_device()).run(inputs), graph, inputs)


def test_bytes_are_as_exact_as_half_floats() -> None:
    graph, inputs = chain()
    in_bytes, in_floats = (
        lower(graph, Target("phone", "host", gpu_family=family, precision=Precision.FP16_STORAGE))
        for family in ("mali-bifrost", "pocl")
    )
    assert any(codes(in_bytes)) and not any(codes(in_floats)), "drivers for CPUs keep floats"
    assert error_of(in_bytes, graph, inputs) < 1.2 * error_of(in_floats, graph, inputs)


def test_what_is_had_as_an_output_stays_in_floats() -> None:
    graph, _ = chain()
    kept = graph.nodes[2].output
    assert codes(lower(graph, MOBILE, Options(keep=(kept,))))[:3] == [1, 4, 1]


@pytest.mark.slow
def test_farmrt_computes_the_same(gpu: Farmrt) -> None:
    graph, inputs = chain()
    check(run_on(gpu, lower(graph, MOBILE), inputs), graph, inputs)
