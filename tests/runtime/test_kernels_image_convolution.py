"""Convolutions on images equal NumPy's for odd sizes, groups, strides, dilations, padding, residual, activations."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.families.convolution.image_lowering import with_scales
from runtime.types import Precision
from tests.runtime.image_launch import (
    ACTIVATIONS,
    TABLE,
    TARGET,
    assert_close,
    built_at_once,
    fused,
    launch,
    oracle,
    plain_variants,
    precisions,
    random,
)

pytestmark = pytest.mark.opencl

BASE = {"batch": 1, "in_h": 5, "in_w": 6, "in_c": 3, "out_c": 5, "k": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1)}
CONV_CASES = {
    "same": {},
    "one pixel": {"in_h": 1, "in_w": 1},
    "valid": {"pad": (0, 0, 0, 0)},
    "strides": {"stride": (2, 3), "in_h": 7, "in_w": 9},
    "dilations": {"dilation": (2, 3), "in_h": 7, "in_w": 9, "pad": (2, 3, 2, 3)},
    "uneven pads": {"pad": (0, 2, 1, 0)},
    "filter 1x5": {"k": (1, 5), "pad": (0, 2, 0, 2)},
    "filter 4x2": {"k": (4, 2), "pad": (2, 0, 1, 1)},
    "batch": {"batch": 3, "in_c": 6, "out_c": 4},
    "channels": {"in_c": 9, "out_c": 11, "in_w": 4},
    "two groups": {"groups": 2, "in_c": 4, "out_c": 8},
    "three groups": {"groups": 3, "in_c": 8, "out_c": 4},
}


def conv_case(batch, in_h, in_w, in_c, out_c, k, stride, pad, dilation=(1, 1), groups=1):
    """Attributes for the oracle and dims for the kernel; in_c and out_c are a group's."""
    out = [
        (size + pad[i] + pad[i + 2] - dilation[i] * (k[i] - 1) - 1) // stride[i] + 1
        for i, size in enumerate((in_h, in_w))
    ]
    pairs = {"k": k, "stride": stride, "dil": dilation, "out": out}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    dims |= {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c, "out_c": out_c, "groups": groups}
    dims |= {"pad_t": pad[0], "pad_l": pad[1]}
    return {"strides": stride, "pads": pad, "dilations": dilation, "group": groups}, dims


def conv(case, activation="none", residual=False, **launch_options):
    attributes, dims = conv_case(**(BASE | case))
    groups = dims["groups"]
    x = random(1, dims["batch"], groups * dims["in_c"], dims["in_h"], dims["in_w"])
    w = random(2, groups * dims["out_c"], dims["in_c"], dims["k_h"], dims["k_w"])
    shape = (dims["batch"], groups * dims["out_c"], dims["out_h"], dims["out_w"])
    tensors = (x, w, random(3, groups * dims["out_c"]))
    return fused("conv2d", "Conv", tensors, shape, dims, attributes, activation, residual, **launch_options)


@pytest.mark.parametrize("case", CONV_CASES)
def test_conv2d_computes_the_convolution(case):
    assert_close(*conv(CONV_CASES[case]), Precision.FP32)


@pytest.mark.parametrize("activation", ["clip", "elu"])
def test_conv2d_applies_activations(activation):
    assert_close(*conv({"in_w": 3}, activation), Precision.FP32)


@pytest.mark.slow
def test_conv2d_applies_every_activation():
    _, dims = conv_case(**(BASE | {"in_w": 3}))
    default = TABLE["conv2d"].default_variant(dims, TARGET)
    defines = [{"ACTIVATION": int(code), "RESIDUAL": 0} for code, _, _ in ACTIVATIONS.values()]
    with built_at_once("conv2d", [(default, Precision.FP32, each) for each in defines]):
        for activation in ACTIVATIONS:
            assert_close(*conv({"in_w": 3}, activation), Precision.FP32, activation)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_conv2d_adds_the_residual_before_the_activation(precision):
    assert_close(*conv({}, "relu", residual=True, precision=precision), precision)


PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))
RANDOM_CASES = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 2),
        "in_h": st.integers(5, 9),
        "in_w": st.integers(5, 9),
        "k": PAIR,
        "stride": PAIR,
        "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
        "pad": st.tuples(*[st.integers(0, 2)] * 4),
    }
)


@pytest.mark.slow
@settings(max_examples=60)
@given(RANDOM_CASES, st.integers(1, 9), st.integers(1, 9), st.sampled_from(plain_variants("conv2d")[::3]))
def test_conv2d_computes_convolutions_of_any_shape(case, in_c, out_c, variant):
    assert_close(*conv(case | {"in_c": in_c, "out_c": out_c}, variant=variant), Precision.FP32)


@pytest.mark.slow
@settings(max_examples=60)
@given(RANDOM_CASES, st.integers(1, 9))
def test_depthwise_computes_convolutions_of_any_shape(case, channels):
    assert_close(*depthwise(case | {"channels": channels}), Precision.FP32)


@pytest.mark.slow
def test_every_variant_of_conv2d_computes_the_convolution():
    variants, defines = plain_variants("conv2d"), {"ACTIVATION": int(ACTIVATIONS["clip"][0]), "RESIDUAL": 0}
    with built_at_once("conv2d", [(variant, Precision.FP32, defines) for variant in variants]):
        for case, variant in itertools.product(("strides", "channels"), variants):
            found = conv(CONV_CASES[case], "clip", variant=variant, local=(1, 2, 2))
            assert_close(*found, Precision.FP32, f"{case}, {variant.name}")


def conv1x1(rows, width, in_c, out_c, activation="none", residual=False, **launch_options):
    tensors = random(1, 1, in_c, rows, width), random(2, out_c, in_c, 1, 1), random(3, out_c)
    dims = {"rows": rows, "width": width, "in_c": in_c, "out_c": out_c}
    attributes, shape = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "group": 1}, (1, out_c, rows, width)
    return fused("conv1x1", "Conv", tensors, shape, dims, attributes, activation, residual, **launch_options)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 5, 7, 9), (2, 9, 4, 13), (5, 4, 12, 8)])
def test_conv1x1_computes_the_convolution(shape):
    assert_close(*conv1x1(*shape), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_conv1x1_adds_the_residual_before_the_activation(precision):
    assert_close(*conv1x1(3, 5, 6, 7, "hard_swish", residual=True, precision=precision), precision)


def depthwise(case, activation="none", residual=False, **launch_options):
    channels = case.get("channels", 6)
    case = {key: value for key, value in case.items() if key != "channels"}
    attributes, dims = conv_case(**(BASE | case | {"in_c": 1, "out_c": 1, "groups": channels}))
    dims["channels"] = channels
    x = random(1, dims["batch"], channels, dims["in_h"], dims["in_w"])
    shape = (dims["batch"], channels, dims["out_h"], dims["out_w"])
    tensors = (x, random(2, channels, 1, dims["k_h"], dims["k_w"]), random(3, channels))
    return fused("depthwise", "Conv", tensors, shape, dims, attributes, activation, residual, **launch_options)


DEPTHWISE_CASES = {
    "same": {},
    "one channel": {"channels": 1},
    "strides": {"stride": (2, 2), "in_h": 7, "in_w": 9, "channels": 9},
    "dilations": {"dilation": (2, 2), "pad": (2, 2, 2, 2)},
    "filter 5x3, batch": {"k": (5, 3), "pad": (2, 1, 2, 1), "batch": 2},
}


@pytest.mark.parametrize("case", DEPTHWISE_CASES)
def test_depthwise_computes_the_convolution(case):
    assert_close(*depthwise(DEPTHWISE_CASES[case]), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_depthwise_adds_the_residual_before_the_activation(precision):
    assert_close(*depthwise({}, "clip", residual=True, precision=precision), precision)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (3, 2, 3, 5, 7), (2, 1, 1, 12, 9)], ids=str)
@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_fully_connected_computes_the_product(shape, precision):
    batch, in_h, in_w, in_c, out_c = shape
    x, w, b = random(1, batch, in_c, in_h, in_w), random(2, out_c, in_c, 1, in_h * in_w), random(3, out_c)
    dims = dict(zip(("batch", "in_h", "in_w", "in_c", "out_c"), shape, strict=True))
    code, floats, activated = ACTIVATIONS["relu"]
    out = launch("fully_connected", {"x": x, "w": w, "b": b}, dims, floats, {"ACTIVATION": int(code)}, None, precision)
    expected = oracle("FullyConnected", [x.reshape(batch, -1), w.reshape(out_c, -1), b], activated)
    assert_close(out[:, :, 0, 0], expected, precision)


def test_nan_stays_nan_through_a_clamp():
    x = np.full((1, 1, 1, 1), np.nan, np.float32)
    tensors = {"x": x, "w": np.ones((1, 1, 1, 1), np.float32), "b": np.zeros(1, np.float32)}
    dims = {"rows": 1, "width": 1, "in_c": 1, "out_c": 1}
    assert np.isnan(launch("conv1x1", tensors, dims, (0.0, 6.0), {"ACTIVATION": 0, "RESIDUAL": 0})).all()


def test_groups_without_whole_blocks_do_not_fit():
    _, dims = conv_case(**(BASE | {"groups": 2, "in_c": 4, "out_c": 6}))
    assert TABLE["conv2d"].default_variant(dims, TARGET) is None
    assert "multiples of 4" in TABLE["conv2d"].fits(dims, TABLE["conv2d"].variants[0], TARGET)


def test_an_image_beyond_the_device_limit_does_not_fit():
    dims = {"rows": 1, "width": TARGET.image2d_max_width + 1, "in_c": 4, "out_c": 4}
    assert "limit is 8192 x 8192" in TABLE["conv1x1"].fits(dims, TABLE["conv1x1"].variants[0], TARGET)


def test_an_image_beyond_the_largest_allocation_does_not_fit():
    dims = {"rows": 10, "width": 10, "in_c": 4, "out_c": 4}
    small = dataclasses.replace(TARGET, max_allocation_bytes=10 * 10 * 16 - 1)
    told = TABLE["conv1x1"].fits(dims, TABLE["conv1x1"].variants[0], small)
    assert "x needs an image of 1600 bytes; the device allocates 1599 at most" in told
    assert not TABLE["conv1x1"].fits(dims, TABLE["conv1x1"].variants[0], TARGET)


INTEGER_CASES = {
    "conv2d": (conv_case(**BASE | {"in_c": 6, "out_c": 9}), (9, 6, 3, 3)),
    "conv2d of groups": (conv_case(**BASE | {"in_c": 4, "out_c": 8, "groups": 2}), (16, 4, 3, 3)),
    "conv1x1": ((({"group": 1}), {"rows": 5, "width": 6, "in_c": 7, "out_c": 10}), (10, 7, 1, 1)),
    "fully_connected": (({"group": 1}, {"batch": 2, "in_h": 2, "in_w": 3, "in_c": 6, "out_c": 9}), (9, 6, 2, 3)),
}


@pytest.mark.parametrize("precision", precisions(), ids=lambda precision: precision.name)
@pytest.mark.parametrize("name", INTEGER_CASES)
def test_integer_weights_are_multiplied_by_their_scales(name, precision):
    (attributes, dims), shape = INTEGER_CASES[name]
    kernel, channels = name.partition(" ")[0], shape[0]
    integers = np.random.default_rng(2).integers(-127, 128, shape).astype(np.int8)
    scales, b = np.random.default_rng(3).uniform(0.002, 0.008, channels).astype(np.float32), random(3, channels)
    ends = with_scales(b, scales)
    x_shape = {
        "conv2d": (1, dims.get("groups", 1) * dims["in_c"], 5, 6),
        "conv1x1": (1, dims["in_c"], dims.get("rows"), dims.get("width")),
        "fully_connected": (2, 6, 2, 3),
    }[kernel]
    x, defines = random(1, *x_shape), {"ACTIVATION": 0, "RESIDUAL": 0, "WEIGHT_BITS": 8}
    w = integers if kernel != "fully_connected" else integers.reshape(channels, dims["in_c"], 1, -1)
    actual = launch(kernel, {"x": x, "w": w, "b": ends}, dims, (-np.inf, np.inf), defines, precision=precision)
    defaults = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    floats = integers * scales[:, None, None, None].astype(np.float64)
    assert_close(actual, oracle("Conv", [x, floats, b], defaults | attributes), precision)


CASES = {
    "2x2 stride 2": {},
    "one pixel": {"size": (1, 1), "k": (1, 1), "stride": (1, 1)},
    "4x4 stride 2": {"k": (4, 4), "pad": (1, 1, 1, 1), "batch": 3},
    "uneven pads": {"k": (3, 5), "pad": (0, 2, 1, 0)},
    "negative pads": {"k": (3, 2), "pad": (-1, -2, 0, -3)},
    "gaps": {"stride": (4, 3)},
    "dilations": {"k": (3, 3), "stride": (4, 3), "dilation": (6, 2), "pad": (2, 1, 0, 3)},
    "channels": {"in_c": 9, "out_c": 11},
    "two groups": {"groups": 2, "in_c": 4, "out_c": 8, "k": (3, 3)},
    "three groups": {"groups": 3, "in_c": 8, "out_c": 4},
}
DECONVOLUTION = {"batch": 1, "size": (4, 5), "in_c": 3, "out_c": 5, "k": (2, 2), "stride": (2, 2), "pad": (0,) * 4}


def geometry(batch, size, in_c, out_c, k, stride, pad, dilation=(1, 1), groups=1):
    """Attributes for the oracle and dims for the kernel; in_c and out_c are a group's."""
    out = [(size[i] - 1) * stride[i] + dilation[i] * (k[i] - 1) + 1 - pad[i] - pad[i + 2] for i in range(2)]
    step = [stride[i] // math.gcd(stride[i], dilation[i]) for i in range(2)]
    pairs = {"in": size, "k": k, "stride": stride, "dil": dilation, "out": out, "step": step}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    dims |= {"batch": batch, "in_c": in_c, "out_c": out_c, "groups": groups, "pad_t": pad[0], "pad_l": pad[1]}
    attributes = {"strides": stride, "pads": pad, "dilations": dilation, "group": groups, "output_padding": (0, 0)}
    return attributes, dims


def ordered(w, dims):
    """Filters [o, i, h, w] with their taps class by class, as one row."""
    taps = [(i, j) for i in range(dims["k_h"]) for j in range(dims["k_w"])]
    taps.sort(key=lambda t: (t[0] % dims["step_h"], t[1] % dims["step_w"], *t))
    return np.stack([w[:, :, i, j] for i, j in taps], axis=-1)[:, :, None]


def deconv(kernel, case, activation="none", residual=False, **launch_options):
    attributes, dims = geometry(**(DECONVOLUTION | case))
    groups, in_c, out_c = dims["groups"], dims["in_c"], dims["out_c"]
    x = random(1, dims["batch"], groups * in_c, dims["in_h"], dims["in_w"])
    w = random(2, groups * in_c, out_c, dims["k_h"], dims["k_w"])
    b = random(3, groups * out_c)
    split = w.reshape(groups, in_c, out_c, *w.shape[2:]).swapaxes(1, 2)
    filters = ordered(split.reshape(groups * out_c, in_c, *w.shape[2:]), dims)
    shape = (dims["batch"], groups * out_c, dims["out_h"], dims["out_w"])
    if kernel == "deconv_depthwise":
        dims["channels"] = groups
    tensors = (x, w, b, filters)
    return fused(kernel, "ConvTranspose", tensors, shape, dims, attributes, activation, residual, **launch_options)


@pytest.mark.parametrize("case", CASES)
def test_deconv2d_computes_the_transposed_convolution(case):
    assert_close(*deconv("deconv2d", CASES[case]), Precision.FP32)


@pytest.mark.parametrize("case", [name for name in CASES if "group" not in name and name != "channels"])
def test_deconv_depthwise_computes_the_transposed_convolution(case):
    channelwise = CASES[case] | {"groups": 6, "in_c": 1, "out_c": 1}
    assert_close(*deconv("deconv_depthwise", channelwise), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("kernel", ["deconv2d", "deconv_depthwise"])
def test_the_residual_is_added_before_the_activation(kernel, precision):
    case = {"groups": 5, "in_c": 1, "out_c": 1} if kernel == "deconv_depthwise" else {}
    assert_close(*deconv(kernel, case, "clip", residual=True, precision=precision), precision)


@pytest.mark.slow
def test_every_variant_computes_the_transposed_convolution():
    case, variants = CASES["4x4 stride 2"] | {"out_c": 9}, plain_variants("deconv2d")
    defines = {"ACTIVATION": int(ACTIVATIONS["relu"][0]), "RESIDUAL": 0}
    with built_at_once("deconv2d", [(variant, Precision.FP32, defines) for variant in variants]):
        for variant in variants:
            found = deconv("deconv2d", case, "relu", variant=variant, local=(1, 2, 2))
            assert_close(*found, Precision.FP32, variant.name)
