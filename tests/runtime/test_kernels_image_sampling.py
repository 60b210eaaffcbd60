"""Pooling on images against NumPy."""

import pytest

from runtime.kernels.codes import Pool
from runtime.plan.records import Precision
from tests.runtime.image_launch import assert_close, launch, oracle, precisions, random

WINDOWS = {
    "2x2": {"k": (2, 2), "stride": (2, 2)},
    "3x3 padded": {"k": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1)},
    "3x2 strided": {"k": (3, 2), "stride": (2, 1), "pad": (1, 0, 2, 1)},
    "global": {"k": (5, 6), "stride": (1, 1)},
}


def pool(kind, shape, k, stride, pad=(0, 0, 0, 0), include=False, precision=Precision.FP32):
    batch, channels, in_h, in_w = shape
    out = [(size + pad[i] + pad[i + 2] - k[i]) // stride[i] + 1 for i, size in enumerate((in_h, in_w))]
    pairs = {"in": (in_h, in_w), "out": out, "k": k, "stride": stride, "dil": (1, 1)}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    dims |= {"batch": batch, "channels": channels, "pad_t": pad[0], "pad_l": pad[1], "count_include_pad": int(include)}
    attributes = {"kernel": k, "strides": stride, "pads": pad, "dilations": (1, 1), "count_include_pad": include}
    x = random(1, *shape)
    expected = oracle("MaxPool" if kind == Pool.MAX else "AveragePool", [x], attributes)
    return launch("pool", {"x": x}, dims, (), {"POOL": int(kind)}, None, precision), expected


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", Pool, ids=lambda kind: kind.name)
def test_pool(kind, window):
    assert_close(*pool(kind, (2, 6, 5, 6), **WINDOWS[window]), Precision.FP32)


def test_average_over_the_padding_too():
    assert_close(*pool(Pool.AVERAGE, (1, 5, 5, 6), **WINDOWS["3x3 padded"], include=True), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_pool_precisions(precision):
    assert_close(*pool(Pool.AVERAGE, (1, 9, 5, 6), **WINDOWS["3x3 padded"], precision=precision), precision)
