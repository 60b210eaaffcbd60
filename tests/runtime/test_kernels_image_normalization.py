"""Normalisations on images equal NumPy's, in every precision and variant."""

import pytest

from runtime.target import Target
from runtime.types import Precision
from tests.runtime.image_launch import ACTIVATIONS, TABLE, assert_close, launch, oracle, precisions, random

pytestmark = pytest.mark.opencl

EPSILON = 0.01
SHAPES = [(1, 1, 1, 1), (2, 7, 3, 5), (1, 24, 4, 3)]
VARIANTS = TABLE["normalization"].variants


def normalization(shape, groups, spatial, centered=1, activation="none", variant=None, precision=Precision.FP32):
    dims = dict(zip(("batch", "channels", "height", "width"), shape, strict=True))
    dims |= {"groups": groups, "spatial": spatial, "centered": centered}
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
