"""Reductions, softmax and local response normalisation on images equal NumPy's."""

import numpy as np
import pytest

from runtime.kernels.codes import Reduce
from runtime.types import Precision
from tests.runtime.image_launch import assert_close, launch, oracle, precisions, random

pytestmark = pytest.mark.opencl

SHAPES = [(1, 1, 1, 1), (2, 7, 3, 5), (1, 12, 2, 2)]


def extents(shape):
    return dict(zip(("batch", "channels", "height", "width"), shape, strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
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
@pytest.mark.parametrize("shape", [*SHAPES, (3, 21, 1, 1)], ids=str)
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
