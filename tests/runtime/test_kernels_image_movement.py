"""Kernels that move pixels put each element where it belongs and write nothing else."""

import math

import numpy as np
import pytest

from runtime.kernels.codes import Pad, Pooling
from runtime.types import Precision
from tests.runtime.image_launch import SENTINEL, assert_close, element_type, extents, launch, oracle, precisions, random
from tests.runtime.unpacked import nhwc_view

pytestmark = pytest.mark.opencl

SHAPES = [(1, 1, 1, 1), (2, 3, 4, 5), (1, 9, 3, 2), (3, 5, 1, 1), (2, 8, 3, 3)]


def strided(shape, strides, offsets):
    """Dims of a conversion between an image and a buffer of these element strides (n, c, h, w)."""
    dims = extents(shape) | offsets
    return dims | {f"stride_{axis}": step for axis, step in zip("nchw", strides, strict=True)}


def nchw_strides(shape):
    _, c, h, w = shape
    return (c * h * w, h * w, w, 1)


def nhwc_strides(shape, stride):
    _, _, h, w = shape
    return (h * w * stride, 1, w * stride, stride)


def nhwc_size(shape, stride):
    """Elements from the first to the last of (n, c, h, w) whose pixels are `stride` apart."""
    return (math.prod(shape) // shape[1] - 1) * stride + shape[1]


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_float_nchw_buffer_becomes_an_image(shape, precision):
    x = random(1, *shape)
    dims = strided(shape, nchw_strides(shape), {"x_offset": 3})
    padded = np.concatenate([np.full(3, np.nan, np.float32), x.reshape(-1)])
    np.testing.assert_array_equal(
        launch("buffer_to_image", {"x": padded}, dims, (), {"SRC_F32": 1}, None, precision), x
    )


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_nhwc_view_becomes_an_image(shape, precision):
    x, stride = random(2, *shape), shape[1] + 3
    storage = np.full(1 + nhwc_size(shape, stride), np.nan, element_type(precision))
    nhwc_view(storage, shape, 1, stride)[...] = x
    dims = strided(shape, nhwc_strides(shape, stride), {"x_offset": 1})
    np.testing.assert_array_equal(launch("buffer_to_image", {"x": storage}, dims, precision=precision), x)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_image_becomes_a_float_nchw_buffer(shape, precision):
    x = random(3, *shape)
    dims = strided(shape, nchw_strides(shape), {"y_offset": 2})
    storage = np.full(x.size + 4, -7, np.float32)
    out = launch("image_to_buffer", {"x": x, "y": storage}, dims, (), {"DST_F32": 1}, None, precision)
    np.testing.assert_array_equal(out[2:-2].reshape(shape), x)
    assert (out[:2] == -7).all()
    assert (out[-2:] == -7).all()


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16_STORAGE], ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_image_becomes_an_nhwc_view_and_the_other_channels_stay(shape, precision):
    x, stride = random(4, *shape), shape[1] + 2
    storage = np.full(1 + nhwc_size(shape, stride) + 5, -7, element_type(precision))
    expected = storage.copy()
    nhwc_view(expected, shape, 1, stride)[...] = x
    dims = strided(shape, nhwc_strides(shape, stride), {"y_offset": 1})
    out = launch("image_to_buffer", {"x": x, "y": storage}, dims, precision=precision)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("channels", [(4, 8), (4, 8, 12, 5), (3, 2), (1, 1, 1, 1), (5, 4, 7, 2), (6,)], ids=str)
def test_concat_joins_channels_in_order(channels, precision):
    inputs = [random(i, 1, count, 3, 2) for i, count in enumerate(channels)]
    tensors = dict(zip("abcd", inputs, strict=False))
    counts = {f"{name}_channels": tensors[name].shape[1] if name in tensors else 0 for name in "abcd"}
    dims = {"rows": 3, "width": 2, "y_block": 0} | counts
    np.testing.assert_array_equal(launch("concat", tensors, dims, precision=precision), np.concatenate(inputs, axis=1))


def test_concat_behind_other_channels_leaves_them_alone():
    a, b = random(1, 1, 4, 2, 3), random(2, 1, 3, 2, 3)
    dims = {"rows": 2, "width": 3, "a_channels": 4, "b_channels": 3, "c_channels": 0, "d_channels": 0, "y_block": 2}
    out = launch("concat", {"a": a, "b": b}, dims)
    np.testing.assert_array_equal(out[:, 8:], np.concatenate([a, b], axis=1))
    assert (out[:, :8] == SENTINEL).all()


SLICES = {
    "whole blocks": ((0, 4, 0, 0), (2, 4, 4, 5), (1, 1)),
    "channels 1-5": ((0, 1, 0, 0), (2, 5, 4, 5), (1, 1)),
    "last channel": ((0, 10, 0, 0), (2, 1, 4, 5), (1, 1)),
    "second image": ((1, 3, 0, 0), (1, 8, 4, 5), (1, 1)),
    "every other column": ((0, 2, 1, 0), (2, 6, 3, 3), (1, 2)),
    "backwards": ((0, 0, 3, 4), (2, 11, 4, 5), (-1, -1)),
}


@pytest.mark.parametrize("case", SLICES)
def test_slice_takes_the_range_of_each_axis(case):
    starts, shape, (step_h, step_w) = SLICES[case]
    x = random(1, 2, 11, 4, 5)
    dims = extents(shape) | {f"start_{axis}": start for axis, start in zip("nchw", starts, strict=True)}
    dims |= {"in_h": 4, "in_w": 5, "step_h": step_h, "step_w": step_w}
    steps = (1, 1, step_h, step_w)
    index = [[start + i * step for i in range(size)] for start, size, step in zip(starts, shape, steps, strict=True)]
    np.testing.assert_array_equal(launch("slice", {"x": x}, dims), x[np.ix_(*index)])


@pytest.mark.parametrize(("channels", "groups"), [(8, 2), (12, 3), (6, 3), (15, 5), (5, 1)])
def test_channel_shuffle_interleaves_the_groups(channels, groups):
    x = random(1, 2, channels, 2, 3)
    out = launch("channel_shuffle", {"x": x}, extents(x.shape) | {"groups": groups})
    np.testing.assert_array_equal(out, oracle("ChannelShuffle", [x], {"group": groups}))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("channels", "size"), [(4, 2), (3, 2), (9, 2), (2, 3), (1, 4), (5, 1)])
def test_channels_become_blocks_of_pixels_and_return(channels, size, mode):
    attributes, defines = {"blocksize": size, "mode": mode}, {"CRD": int(mode == "CRD")}
    deep, wide = (2, channels * size**2, 2, 3), (2, channels, 2 * size, 3 * size)
    x = random(1, *deep)
    out = launch("depth_to_space", {"x": x}, extents(wide) | {"size": size}, (), defines)
    np.testing.assert_array_equal(out, oracle("DepthToSpace", [x], attributes))
    back = launch("space_to_depth", {"x": out}, extents(deep) | {"size": size, "in_c": channels}, (), defines)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("pads", [(1, 2, 2, 0), (0, 0, 0, 3)], ids=str)
@pytest.mark.parametrize("kind", Pad, ids=lambda kind: kind.name)
def test_pad_surrounds_the_image(kind, pads):
    top, left, bottom, right = pads
    x = random(1, 2, 5, 4, 5)
    dims = extents((2, 5, 4 + top + bottom, 5 + left + right)) | {"in_h": 4, "in_w": 5, "pad_t": top, "pad_l": left}
    attributes = {"pads": (0, 0, top, left, 0, 0, bottom, right), "mode": kind.name.lower(), "value": 0.5}
    out = launch("pad", {"x": x}, dims, (0.5,), {"PAD": int(kind)})
    np.testing.assert_array_equal(out, oracle("Pad", [x], attributes))


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
