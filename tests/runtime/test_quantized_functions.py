"""Quantised operators of ONNX Runtime are what it computes itself, where its sums of products do not saturate."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from runtime.convert import convert
from runtime.families.quantization.onnx_functions import DOMAIN, ONNX_FUNCTIONS
from runtime.graph import Array
from runtime.importers.onnx_importer import import_onnx
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import run_onnxruntime

RANDOM = np.random.default_rng(5)
SHAPE = (2, 4, 6, 5)


def draw(*shape: int, kind: Any = np.uint8, most: int = 255) -> Array:
    return RANDOM.integers(max(-most // 2, np.iinfo(kind).min), min(most, np.iinfo(kind).max), shape).astype(kind)


# Few bits, so that pairs of products stay within 16 bits.
FLOATS = RANDOM.standard_normal((3, 9), np.float32)
MATRIX, ROWS = {"w": draw(9, 7, kind=np.int8, most=60), "wz": np.zeros(7, np.int8)}, draw(3, 9, most=120)
COLUMNS = {**MATRIX, "ws": np.linspace(0.01, 0.05, 7, dtype=np.float32)}
ONE = {**MATRIX, "ws": np.float32(0.02)}
SIXTEEN = {"s16": np.linspace(0.001, 0.004, 4, dtype=np.float32), "z16": np.array([9, 0, 65535, 300], np.uint16)}
CONSTANTS = {
    "xs": np.float32(0.02),
    "xz": np.uint8(100),
    "bs": np.float32(0.03),
    "bz": np.uint8(7),
    "ys": np.float32(0.05),
    "yz": np.uint8(90),
    "b": draw(*SHAPE),
    "c": draw(7, kind=np.int32, most=4000),
    "bias": RANDOM.random(7, np.float32),
    "condition": RANDOM.random(SHAPE) > 0.5,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A node that reads `x` and constants; `steps`: how far ONNX Runtime may be from what the operator means."""

    op: str
    reads: str
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    x: Array = dataclasses.field(default_factory=lambda: draw(*SHAPE))
    steps: int = 0

    def __str__(self) -> str:
        return f"{self.op} {self.reads} {dict(self.attributes) or ''}"

    def model(self) -> onnx.ModelProto:
        names = [name.strip("-") for name in self.reads.split()]
        constants = {**CONSTANTS, **self.more}
        graph = helper.make_graph(
            [helper.make_node(self.op, names, ["y"], domain=DOMAIN, **self.attributes)],
            "one",
            [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(self.x.dtype), self.x.shape)],
            [onnx.ValueInfoProto(name="y")],
            [numpy_helper.from_array(np.asarray(constants[name]), name) for name in names if name in constants],
        )
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def few_bits() -> Iterator[Case]:
    """Seven rows of 40 columns, in three blocks of 16."""
    x, scales = RANDOM.standard_normal((2, 3, 40), np.float32), RANDOM.uniform(0.01, 0.1, 21).astype(np.float32)
    for bits, zeros in ((4, draw(7 * 2)), (8, draw(7 * 3))):
        weights = {"w": draw(7, 3, 2 * bits, most=256), "s": scales, "z": zeros}
        attributes = {"N": 7, "K": 40, "bits": bits, "block_size": 16}
        yield Case("MatMulNBits", "x w s", attributes, weights, x)
        yield Case("MatMulNBits", "x w s z", attributes, weights, x)
        if bits == 4:  # of eight bits ONNX Runtime has no zero points in floats
            floats = weights | {"z": RANDOM.uniform(0, 9, (7, 3)).astype(np.float32)}
            yield Case("MatMulNBits", "x w s z - bias", attributes, floats, x)


ONE_READ, TWO_READ = "x xs xz ys yz", "x xs xz b bs bz ys yz"
CHANCES = {"ys": np.float32(1 / 255), "yz": np.uint8(0)}
CASES = [
    Case("QLinearAdd", TWO_READ),
    Case("QLinearAdd", TWO_READ, more={"b": draw(4, 1, 5)}),
    Case("QLinearMul", TWO_READ, steps=1),
    Case("QLinearWhere", f"condition {TWO_READ}"),
    Case("QLinearConcat", "ys yz x xs xz b bs bz", {"axis": 1}),
    Case("QLinearSigmoid", ONE_READ, more=CHANCES),
    Case("QLinearLeakyRelu", ONE_READ, {"alpha": 0.2}),
    Case("QLinearAveragePool", ONE_READ, {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}, steps=1),
    Case("QLinearAveragePool", ONE_READ, {"kernel_shape": [3, 3], "channels_last": 1}),
    *(Case("QLinearGlobalAveragePool", ONE_READ, {"channels_last": last}) for last in (0, 1)),
    *(Case("QLinearSoftmax", ONE_READ, {"axis": 1, "opset": opset}, CHANCES, steps=1) for opset in (11, 13)),
    Case("QGemm", "x xs xz w ws wz c ys yz", more=COLUMNS, x=ROWS),
    Case("QGemm", "x xs xz w ws wz c ys yz", {"transB": 1}, {**COLUMNS, "w": MATRIX["w"].T.copy()}, x=ROWS),
    Case("QGemm", "x xs xz w ws wz", {"alpha": 0.5}, {**ONE, "wz": np.int8(0)}, x=ROWS),
    Case("MatMulIntegerToFloat", "x w xs ws xz wz bias", more=COLUMNS, x=ROWS),
    Case("MatMulIntegerToFloat", "x w xs ws", more=ONE, x=ROWS),
    Case("DynamicQuantizeMatMul", "x w ws wz bias", more=COLUMNS, x=FLOATS),
    Case("DynamicQuantizeMatMul", "x w ws", more=ONE, x=FLOATS),
    Case("QuantizeLinear", "x s16 z16", more={"s16": np.float32(0.001), "z16": np.uint16(30000)}, x=FLOATS),
    Case("DequantizeLinear", "x s16 z16", {"axis": 1}, SIXTEEN, x=draw(*SHAPE, kind=np.uint16, most=65535)),
    *few_bits(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_is_what_onnx_runtime_computes(case: Case) -> None:
    model, inputs = case.model(), {"x": case.x}
    wanted = run_onnxruntime(model, inputs)[0]
    for graph in (import_onnx(model), convert(model)[0]):
        found = evaluate(graph, inputs)["y"]
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-5, atol=case.steps + 1e-6)


def test_each_function_has_a_case() -> None:
    assert {(DOMAIN, case.op) for case in CASES} == ONNX_FUNCTIONS.keys()


def float_model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    """A model that reads floats `x` and writes `y`."""
    graph = helper.make_graph(
        nodes,
        "moved",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(CONSTANTS[name]), name) for name in ("xs", "xz")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


MOVED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "MaxPool": ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, ["MaxPool"]),
    "Transpose": ({"perm": [0, 2, 3, 1]}, ["Transpose"]),
    "Flatten": ({"axis": 2}, ["Reshape"]),
}


@pytest.mark.parametrize("op", MOVED)
def test_moving_integers_moves_the_floats_that_they_stand_for(op: str) -> None:
    attributes, wanted = MOVED[op]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node(op, ["q"], ["m"], **attributes),
        helper.make_node("DequantizeLinear", ["m", "xs", "xz"], ["y"]),
    ]
    model = float_model(nodes)
    inputs = {"x": RANDOM.standard_normal(SHAPE, np.float32)}
    found, _ = convert(model)
    assert [node.op for node in found.nodes] == ["FakeQuantize", *wanted]
    np.testing.assert_allclose(evaluate(found, inputs)["y"], run_onnxruntime(model, inputs)[0], rtol=1e-5, atol=1e-6)


def test_a_part_that_nobody_names_is_left_out() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("Split", ["q"], ["m", ""], axis=1),
        helper.make_node("DequantizeLinear", ["m", "xs", "xz"], ["y"]),
    ]
    model = float_model(nodes)
    inputs = {"x": RANDOM.standard_normal(SHAPE, np.float32)}
    rounded = (np.clip(np.round(inputs["x"] / np.float32(0.02)) + 100, 0, 255) - 100) * np.float32(0.02)
    found = evaluate(convert(model)[0], inputs)["y"]
    np.testing.assert_allclose(found, rounded[:, :2], rtol=1e-5, atol=1e-6)
