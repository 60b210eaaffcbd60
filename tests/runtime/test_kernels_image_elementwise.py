"""Element-wise functions on images equal NumPy's."""

import numpy as np
import pytest

from runtime.kernels.codes import Binary, Reduce
from runtime.kernels.spec import Variant
from runtime.semantics.unary import Unary
from runtime.target import Target
from runtime.types import Precision
from tests.runtime.image_launch import (
    ACTIVATIONS,
    TABLE,
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


EPSILON = 0.01
SHAPES = [(1, 1, 1, 1), (2, 7, 3, 5), (1, 24, 4, 3)]
REDUCED = [*SHAPES[:2], (1, 12, 2, 2)]
VARIANTS = TABLE["normalization"].variants


def normalization(shape, groups, spatial, centered=1, activation="none", variant=None, precision=Precision.FP32):
    dims = extents(shape) | {"groups": groups, "spatial": spatial, "centered": centered}
    x, s, t = 3 * random(1, *shape) + 2, random(2, shape[1]), random(3, shape[1])
    code, numbers, fused = ACTIVATIONS[activation]
    attributes = {"epsilon": EPSILON, **fused}
    if spatial:
        expected = oracle("GroupNormalization", [x, s, t], attributes | {"groups": groups})
    else:
        expected = oracle("LayerNormalization", [x, s, t], attributes | {"axes": (1,), "centered": bool(centered)})
    defines = {"ACTIVATION": int(code)}
    tensors = {"x": x, "s": s, "t": t}
    return launch("normalization", tensors, dims, (EPSILON, *numbers), defines, variant, precision), expected


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_channels_of_each_pixel_are_normalised(shape, centered, precision):
    assert_close(*normalization(shape, 1, 0, centered, "gelu", None, precision), precision)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("shape", "groups"), [(SHAPES[1], 7), (SHAPES[2], 24), (SHAPES[2], 3), (SHAPES[2], 1)], ids=str
)
def test_groups_of_channels_are_normalised(shape, groups, precision):
    assert_close(*normalization(shape, groups, 1, 1, "relu", None, precision), precision)


@pytest.mark.parametrize("spatial", [0, 1])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_normalises(variant, spatial):
    assert_close(*normalization(SHAPES[2], 6 if spatial else 1, spatial, 1, "none", variant), Precision.FP32)


def test_groups_that_share_a_pixels_components_go_to_buffers():
    dims = {"batch": 1, "channels": 12, "height": 2, "width": 2, "groups": 6, "spatial": 1, "centered": 1}
    assert "groups of 2 channels" in TABLE["normalization"].fits(dims, VARIANTS[0], Target(soc="host", abi="x86_64"))


@pytest.mark.parametrize("shape", REDUCED, ids=str)
@pytest.mark.parametrize("kind", Reduce, ids=lambda kind: kind.name)
def test_reduce_computes_each_reduction_of_height_and_width(kind, shape):
    x = random(1, *shape)
    expected = oracle(f"Reduce{kind.name.title()}", [x], {"axes": (2, 3), "keepdims": True})
    assert_close(launch("reduce", {"x": x}, extents(shape), (), {"REDUCE": int(kind)}), expected, Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_the_mean_holds_in_every_precision(precision):
    x = random(1, 1, 6, 5, 5)
    out = launch("reduce", {"x": x}, extents(x.shape), (), {"REDUCE": int(Reduce.MEAN)}, None, precision)
    assert_close(out, x.mean(axis=(2, 3), keepdims=True), precision)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", [*REDUCED, (3, 21, 1, 1)], ids=str)
def test_softmax_of_large_values_is_right(shape, precision):
    x = 8 * random(1, *shape) + 50
    out = launch("softmax", {"x": x}, extents(shape), (), {"LOG": 0}, None, precision)
    assert_close(out, oracle("Softmax", [x.astype(out.dtype)], {"axis": 1}), precision)


def test_softmax_computes_the_logarithm_too():
    x = 8 * random(1, 2, 6, 1, 3)
    expected = np.log(oracle("Softmax", [x], {"axis": 1}))
    assert_close(launch("softmax", {"x": x}, extents(x.shape), (), {"LOG": 1}), expected, Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn_normalises_over_the_window_of_channels(size, precision):
    x = 2 * random(1, 2, 7, 2, 3)
    attributes = {"alpha": 0.9, "beta": 0.75, "bias": 1.5, "size": size}
    out = launch("lrn", {"x": x}, extents(x.shape) | {"size": size}, (0.9, 0.75, 1.5), {}, None, precision)
    assert_close(out, oracle("LRN", [x], attributes), precision)
