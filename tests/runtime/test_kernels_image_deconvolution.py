"""Transposed convolutions on images equal NumPy's for odd sizes, groups, strides, dilations, pads, residual."""

import math

import numpy as np
import pytest

from runtime.types import Precision
from tests.runtime.image_launch import (
    ACTIVATIONS,
    assert_close,
    built_at_once,
    fused,
    plain_variants,
    precisions,
    random,
)

pytestmark = pytest.mark.opencl

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
BASE = {"batch": 1, "size": (4, 5), "in_c": 3, "out_c": 5, "k": (2, 2), "stride": (2, 2), "pad": (0,) * 4}


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
    attributes, dims = geometry(**(BASE | case))
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
