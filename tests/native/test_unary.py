"""An entry of `semantics/unary.py` is all that a function is: by it alone each goes from ONNX to every memory."""

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from runtime.convert import convert
from runtime.exporters.onnx_exporter import export_onnx
from runtime.graph import Array
from runtime.importers.onnx_importer import import_onnx
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.semantics.unary import ACTIVATIONS, Unary
from runtime.target import Target
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import assert_close, run_on
from tests.opencl import default_device, turn
from tests.runtime.onnx_models import onnx_model, random_array

SHAPE = (1, 9, 3, 5)
WEIGHTS = random_array((9, 9, 1, 1), 3, 0.1, 0.5)
BUFFER = target_of_device(default_device(), memory="buffer")
IMAGE = dataclasses.replace(BUFFER, memory="image")
CPU = Target("host", "host", memory="cpu")
# The youngest is tried by each run of the quick tests.
EACH = [pytest.param(code, marks=[] if code == max(Unary) else pytest.mark.slow, id=code.name) for code in Unary]


def node(code: Unary, x: str, y: str) -> onnx.NodeProto:
    """A node of ONNX that leaves all parameters to their defaults, or of our domain where ONNX says it otherwise."""
    function = code.function
    if function.in_onnx and code != Unary.CLAMP:
        return helper.make_node(function.operator, [x], [y])
    parameters: dict[str, Any] = {each.name: float(each.name == "beta") for each in function.parameters}
    return helper.make_node(function.operator, [x], [y], domain="farm", **parameters)


def model(code: Unary) -> onnx.ModelProto:
    """The function of an input, which nothing can be fused with, and of a convolution of it."""
    nodes = [node(code, "x", "alone"), helper.make_node("Conv", ["x", "w"], ["sum"]), node(code, "sum", "behind")]
    made = onnx_model(nodes, {"x": SHAPE}, ("alone", "behind"), {"w": WEIGHTS})
    made.opset_import.append(helper.make_opsetid("farm", 1))
    return made


def expected(code: Unary, x: Array) -> dict[str, Array]:
    """What the entry says, in double precision, of the tensor and of its convolution."""
    numbers = [float(each.name == "beta") if code == Unary.CLAMP else each.default for each in code.function.parameters]
    wide = x.astype(np.float64)
    sums = np.einsum("oi,nihw->nohw", WEIGHTS[:, :, 0, 0].astype(np.float64), wide)
    return {name: code.function.compute(v, *numbers) for name, v in (("alone", wide), ("behind", sums))}


@pytest.mark.parametrize("code", EACH)
def test_an_entry_is_enough(code: Unary, cpu: Farmrt) -> None:
    x = random_array(SHAPE, 1, -2.0 if code in ACTIVATIONS else 0.25, 2.0)  # logarithms are of what is positive
    before, (graph, _) = import_onnx(model(code)), convert(model(code))
    fused = [each.attrs.get("activation") for each in graph.nodes if each.op == "Conv"]
    assert fused == [code.function.activation if code in ACTIVATIONS else None]
    wanted = expected(code, x)
    results = [evaluate(before, {"x": x}), evaluate(graph, {"x": x})]
    for target in (BUFFER, IMAGE) if code == max(Unary) else turn(code, (BUFFER, IMAGE)):
        plan = lower(graph, target)
        results.append(Executor(encode_plan(plan), plan.data, default_device()).run({"x": x}))
    results += [
        run_on(cpu, lower(graph, CPU, options), {"x": x}) for options in (Options(), Options(cpu=CpuOptions(8)))
    ]
    for result in results:
        for name, values in wanted.items():
            known = np.isfinite(values)
            assert_close(result[name][known], values[known], 2e-5)


def test_codes_never_change() -> None:
    """They stand in plans: those of the first release, and what came behind them."""
    first = "CLAMP SIGMOID TANH LEAKY_RELU ELU HARD_SIGMOID HARD_SWISH EXP LOG SQRT NEG ABS FLOOR CEIL ERF RECIPROCAL"
    second = "ROUND SOFTPLUS SIN COS GELU GELU_TANH SWISH MISH SELU CELU"
    assert [code.name for code in Unary][:26] == f"{first} {second}".split()
    assert [int(code) for code in Unary] == list(range(len(Unary)))


@pytest.mark.parametrize("code", ACTIVATIONS, ids=lambda code: code.name)
def test_what_is_exported_is_read_again(code: Unary) -> None:
    """In ONNX's own words where the opset has them, else in our domain; the checker takes either."""
    graph, _ = convert(model(code))
    written = export_onnx(graph)
    onnx.checker.check_model(written)
    again, x = import_onnx(written), random_array(SHAPE, 1)
    for name, values in evaluate(graph, {"x": x}).items():
        np.testing.assert_array_equal(evaluate(again, {"x": x})[name], values)
