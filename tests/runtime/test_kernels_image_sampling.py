"""Pooling and resizing on images equal NumPy's."""

import numpy as np
import pytest

from runtime.kernels.codes import Pooling
from runtime.types import Precision
from tests.runtime.image_launch import assert_close, launch, oracle, precisions, random

pytestmark = pytest.mark.opencl

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
    expected = oracle("MaxPool" if kind == Pooling.MAX else "AveragePool", [x], attributes)
    return launch("pool", {"x": x}, dims, (), {"POOL": int(kind)}, None, precision), expected


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", Pooling, ids=lambda kind: kind.name)
def test_pool_computes_maximum_and_average_of_each_window(kind, window):
    assert_close(*pool(kind, (2, 6, 5, 6), **WINDOWS[window]), Precision.FP32)


def test_an_average_can_include_the_padding():
    assert_close(*pool(Pooling.AVERAGE, (1, 5, 5, 6), **WINDOWS["3x3 padded"], include=True), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_the_average_pool_holds_in_every_precision(precision):
    assert_close(*pool(Pooling.AVERAGE, (1, 9, 5, 6), **WINDOWS["3x3 padded"], precision=precision), precision)


def dims_of(x, sizes):
    extents = {"in_h": x.shape[2], "in_w": x.shape[3], "out_h": sizes[0], "out_w": sizes[1]}
    return extents | {"batch": x.shape[0], "channels": x.shape[1]}


def nearest(x, rows, columns, precision=Precision.FP32):
    tables = {"rows": np.array(rows, np.int32), "columns": np.array(columns, np.int32)}
    dims = dims_of(x, (len(rows), len(columns)))
    return launch("resize_nearest", {"x": x} | tables, dims, precision=precision), x[:, :, rows][..., columns]


def bilinear(x, sizes, mode, precision=Precision.FP32):
    extents = x.shape[2:]
    scales = tuple(size / extent for size, extent in zip(sizes, extents, strict=True))
    if mode == "align_corners":
        steps, shifts = [(extent - 1) / (size - 1) for size, extent in zip(sizes, extents, strict=True)], (0.0, 0.0)
    else:
        steps = [1 / scale for scale in scales]
        shifts = [0.5 / scale - 0.5 if mode == "half_pixel" else 0.0 for scale in scales]
    attributes = {"mode": "linear", "sizes": sizes, "scales": scales, "coordinate_transformation_mode": mode}
    out = launch("resize_bilinear", {"x": x}, dims_of(x, sizes), (*steps, *shifts), precision=precision)
    return out, oracle("Resize", [x], attributes)


@pytest.mark.parametrize("sizes", [(6, 10), (2, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
def test_bilinear_resize_interpolates_in_every_coordinate_mode(mode, sizes):
    assert_close(*bilinear(random(1, 2, 5, 3, 5), sizes, mode), Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_bilinear_resize_holds_in_every_precision(precision):
    assert_close(*bilinear(random(1, 1, 6, 3, 4), (5, 7), "half_pixel", precision), precision)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_nearest_resize_takes_the_rows_and_columns_of_its_tables(precision):
    result, expected = nearest(random(1, 2, 5, 3, 5), [0, 2, 1, 1, 0, 2], [4, 0, 3], precision)
    np.testing.assert_array_equal(result, expected)
