"""Kernels that move pixels: buffers to images and back."""

import numpy as np
import pytest

from runtime.layout.buffer import nhwc_size, nhwc_view
from runtime.plan.records import Precision
from tests.runtime.image_launch import element_type, launch, precisions, random

SHAPES = [(1, 1, 1, 1), (2, 3, 4, 5), (1, 9, 3, 2), (3, 5, 1, 1), (2, 8, 3, 3)]


def strided(shape, strides, offsets):
    """Dims of a conversion between an image and a buffer of these element strides (n, c, h, w)."""
    axes = ("batch", "channels", "height", "width")
    dims = dict(zip(axes, shape, strict=True)) | offsets
    return dims | {f"stride_{axis}": step for axis, step in zip("nchw", strides, strict=True)}


def nchw_strides(shape):
    _, c, h, w = shape
    return (c * h * w, h * w, w, 1)


def nhwc_strides(shape, stride):
    _, _, h, w = shape
    return (h * w * stride, 1, w * stride, stride)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_float_nchw_to_image(shape, precision):
    x = random(1, *shape)
    dims = strided(shape, nchw_strides(shape), {"x_offset": 3})
    padded = np.concatenate([np.full(3, np.nan, np.float32), x.reshape(-1)])
    np.testing.assert_array_equal(
        launch("buffer_to_image", {"x": padded}, dims, (), {"SRC_F32": 1}, None, precision), x
    )


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nhwc_view_to_image(shape, precision):
    x, stride = random(2, *shape), shape[1] + 3
    storage = np.full(1 + nhwc_size(shape, stride), np.nan, element_type(precision))
    nhwc_view(storage, shape, 1, stride)[...] = x
    dims = strided(shape, nhwc_strides(shape, stride), {"x_offset": 1})
    np.testing.assert_array_equal(launch("buffer_to_image", {"x": storage}, dims, precision=precision), x)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_image_to_float_nchw(shape, precision):
    x = random(3, *shape)
    dims = strided(shape, nchw_strides(shape), {"y_offset": 2})
    storage = np.full(x.size + 4, -7, np.float32)
    out = launch("image_to_buffer", {"x": x, "y": storage}, dims, (), {"DST_F32": 1}, None, precision)
    np.testing.assert_array_equal(out[2:-2].reshape(shape), x)
    assert (out[:2] == -7).all()
    assert (out[-2:] == -7).all()


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16_STORAGE], ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_image_to_nhwc_view_leaves_the_other_channels_alone(shape, precision):
    x, stride = random(4, *shape), shape[1] + 2
    storage = np.full(1 + nhwc_size(shape, stride) + 5, -7, element_type(precision))
    expected = storage.copy()
    nhwc_view(expected, shape, 1, stride)[...] = x
    dims = strided(shape, nhwc_strides(shape, stride), {"y_offset": 1})
    out = launch("image_to_buffer", {"x": x, "y": storage}, dims, precision=precision)
    np.testing.assert_array_equal(out, expected)
