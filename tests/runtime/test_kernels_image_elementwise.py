"""Element-wise functions on images equal NumPy's."""

import numpy as np
import pytest

from runtime.kernels.codes import Binary
from runtime.kernels.spec import Variant
from runtime.semantics.unary import Unary
from runtime.types import Precision
from tests.runtime.image_launch import (
    ACTIVATIONS,
    assert_close,
    built_at_once,
    extents,
    launch,
    oracle,
    precisions,
    random,
)

pytestmark = pytest.mark.opencl

PLAIN = Variant()
OPERATORS = {
    Binary.ADD: "Add",
    Binary.SUB: "Sub",
    Binary.MUL: "Mul",
    Binary.DIV: "Div",
    Binary.MAX: "Max",
    Binary.MIN: "Min",
    Binary.POW: "Pow",
    Binary.PRELU: "PRelu",
}
BROADCASTS = {
    "same shape": ((2, 6, 3, 5), (2, 6, 3, 5)),
    "scalar": ((2, 6, 3, 5), (1, 1, 1, 1)),
    "channel": ((2, 6, 3, 5), (1, 6, 1, 1)),
    "channel of each batch": ((2, 5, 3, 2), (2, 5, 1, 1)),
    "one channel": ((2, 6, 3, 5), (2, 1, 3, 5)),
    "row and column": ((1, 6, 3, 1), (1, 6, 1, 5)),
    "first is the scalar": ((1, 1, 1, 1), (1, 9, 3, 2)),
}


def binary(code, shapes, activation="none", precision=Precision.FP32):
    a, b = random(1, *shapes[0]), random(2, *shapes[1])
    if code == Binary.POW:
        a = np.abs(a) + 0.5
    if code == Binary.DIV:
        b = np.sign(b) * (np.abs(b) + 0.5)
    output = np.broadcast_shapes(*shapes)
    axes = ("batch", "channels", "height", "width")
    operands = {"": output, "a_": shapes[0], "b_": shapes[1]}
    dims = {prefix + axis: shape[i] for prefix, shape in operands.items() for i, axis in enumerate(axes)}
    activation_code, floats, fused = ACTIVATIONS[activation]
    defines = {"BINARY": int(code), "ACTIVATION": int(activation_code)}
    expected = oracle(OPERATORS[code], [a, b], fused)
    return launch("binary", {"a": a, "b": b}, dims, floats, defines, None, precision), expected


@pytest.mark.parametrize("code", [Binary.SUB, Binary.PRELU])
def test_binary_computes_functions(code):
    assert_close(*binary(code, BROADCASTS["same shape"]), Precision.FP32)


@pytest.mark.slow
def test_binary_computes_every_function():
    builds = [(PLAIN, Precision.FP32, {"BINARY": int(code), "ACTIVATION": 0}) for code in Binary]
    with built_at_once("binary", builds):
        for code in Binary:
            assert_close(*binary(code, BROADCASTS["same shape"]), Precision.FP32, code.name)


@pytest.mark.parametrize("case", BROADCASTS)
def test_binary_repeats_the_smaller_operand(case):
    assert_close(*binary(Binary.SUB, BROADCASTS[case]), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_binary_applies_its_activation(precision):
    assert_close(*binary(Binary.ADD, BROADCASTS["channel"], "relu", precision), precision)


def test_a_quotient_by_zero_stays_out_of_the_components_without_a_channel():
    shape = (1, 3, 1, 1)
    assert np.isfinite(binary(Binary.DIV, (shape, shape))[0]).all()


def expected_unary(code, x):
    function = code.function
    _, floats, attributes = ACTIVATIONS.get(function.activation, (code, (0.0, 0.0), {}))
    return oracle(function.operator, [x], {name: attributes[name] for name in function.parameter_names}), floats


@pytest.mark.parametrize("code", [Unary.CLAMP, Unary.SOFTPLUS])
def test_unary_computes_functions(code):
    check_unary(code)


@pytest.mark.slow
def test_unary_computes_every_function():
    with built_at_once("unary", [(PLAIN, Precision.FP32, {"UNARY": int(code)}) for code in Unary]):
        for code in Unary:
            check_unary(code)


def check_unary(code):
    x = 2 * random(1, 2, 5, 3, 2)
    if code in (Unary.LOG, Unary.SQRT, Unary.RECIPROCAL):
        x = np.abs(x) + 0.25
    expected, floats = expected_unary(code, x)
    dims = extents(x.shape)
    assert_close(launch("unary", {"x": x}, dims, floats, {"UNARY": int(code)}), expected, Precision.FP32, code.name)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 7, 3, 2), (3, 8, 1, 1)], ids=str)
def test_scale_shift_applies_to_each_channel(shape, precision):
    x, s, t = random(1, *shape), random(2, shape[1]), random(3, shape[1])
    dims = extents(shape)
    code, floats, fused = ACTIVATIONS["relu"]
    out = launch("scale_shift", {"x": x, "s": s, "t": t}, dims, floats, {"ACTIVATION": int(code)}, None, precision)
    assert_close(out, oracle("BatchNormalization", [x, s, t], fused), precision)
