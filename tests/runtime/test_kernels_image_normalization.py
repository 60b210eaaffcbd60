"""Normalisations, reductions, softmax and local response normalisation on images equal NumPy's."""

import numpy as np
import pytest

from runtime.kernels.codes import Reduce
from runtime.target import Target
from runtime.types import Precision
from tests.runtime.image_launch import ACTIVATIONS, TABLE, assert_close, extents, launch, oracle, precisions, random

pytestmark = pytest.mark.opencl

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
