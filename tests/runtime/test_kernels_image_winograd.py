"""Each step of Winograd's convolution on images equals its matrix product, and all three the direct convolution."""

import numpy as np
import pytest

from runtime.layout.winograd import INPUT_TRANSFORM, OUTPUT_TRANSFORM, TILES, transform_filter
from runtime.types import Precision
from tests.runtime.image_launch import ACTIVATIONS, assert_close, launch, oracle, precisions, random

pytestmark = pytest.mark.opencl

SHAPE = {"batch": 2, "in_c": 6, "out_c": 5, "height": 5, "width": 7, "pad": (1, 1)}


def tiles_of(tile, case):
    out_h, out_w = case["height"] + 2 * case["pad"][0] - 2, case["width"] + 2 * case["pad"][1] - 2
    return (out_h, out_w), (-(-out_h // tile), -(-out_w // tile))


def transform_input(tile, case, x, precision=Precision.FP32):
    """Launches the input transform; returns V as [points, 1, channels, tiles]."""
    _, (tiles_h, tiles_w) = tiles_of(tile, case)
    dims = {"batch": case["batch"], "in_h": case["height"], "in_w": case["width"], "in_c": case["in_c"]}
    dims |= {"tiles_h": tiles_h, "tiles_w": tiles_w, "pad_t": case["pad"][0], "pad_l": case["pad"][1]}
    return launch("winograd_input", {"x": x}, dims, (), {"WINO": tile}, None, precision)


def transform_output(tile, case, m, b, residual=None, activation="none", precision=Precision.FP32):
    (out_h, out_w), (tiles_h, tiles_w) = tiles_of(tile, case)
    dims = {"batch": case["batch"], "out_h": out_h, "out_w": out_w, "out_c": case["out_c"]}
    dims |= {"tiles_h": tiles_h, "tiles_w": tiles_w}
    code, floats, _ = ACTIVATIONS[activation]
    defines = {"WINO": tile, "ACTIVATION": int(code), "RESIDUAL": int(residual is not None)}
    tensors = {"m": m, "b": b, "residual": residual}
    return launch("winograd_output", tensors, dims, floats, defines, None, precision)


def multiply(v, u, precision=Precision.FP32):
    """Launches the products of V and filters [o, i, points, 1]; returns M as [points, 1, out channels, tiles]."""
    points, _, in_c, tiles = v.shape
    dims = {"points": points, "tiles": tiles, "in_c": in_c, "out_c": u.shape[0]}
    return launch("winograd_gemm", {"v": v, "u": u}, dims, precision=precision)


@pytest.mark.parametrize("tile", TILES)
def test_the_input_transform_equals_its_matrix_product(tile):
    x, (alpha, matrix) = random(1, 2, 6, 5, 7), (tile + 2, INPUT_TRANSFORM[tile])
    _, (tiles_h, tiles_w) = tiles_of(tile, SHAPE)
    v = transform_input(tile, SHAPE, x).reshape(alpha, alpha, 6, 2, tiles_h, tiles_w)
    padded = np.pad(x, ((0, 0), (0, 0), (1, alpha + tile), (1, alpha + tile)))
    for n, h, w in np.ndindex(2, tiles_h, tiles_w):
        patch = padded[n, :, h * tile : h * tile + alpha, w * tile : w * tile + alpha]
        assert_close(v[:, :, :, n, h, w].transpose(2, 0, 1), matrix @ patch @ matrix.T, Precision.FP32)


@pytest.mark.parametrize("precision", precisions(), ids=lambda p: p.name)
def test_the_products_are_taken_point_by_point(precision):
    v, u = random(1, 16, 1, 6, 7), random(2, 9, 6, 16, 1)
    assert_close(multiply(v, u, precision), np.einsum("oia,ait->aot", u[..., 0], v[:, 0])[:, None], precision)


@pytest.mark.parametrize("tile", TILES)
def test_the_output_transform_equals_its_matrix_product(tile):
    (out_h, out_w), (tiles_h, tiles_w) = tiles_of(tile, SHAPE)
    m, b = random(1, (tile + 2) ** 2, 1, 5, 2 * tiles_h * tiles_w), random(2, 5)
    split = m.reshape(tile + 2, tile + 2, 5, 2, tiles_h, tiles_w)
    whole = np.einsum("pa,qb,abonhw->nohpwq", OUTPUT_TRANSFORM[tile], OUTPUT_TRANSFORM[tile], split)
    expected = whole.reshape(2, 5, tiles_h * tile, tiles_w * tile)[:, :, :out_h, :out_w] + b[:, None, None]
    assert_close(transform_output(tile, SHAPE, m, b), expected, Precision.FP32)


@pytest.mark.parametrize("pad", [(1, 1), (0, 0), (1, 0)], ids=str)
@pytest.mark.parametrize("tile", TILES)
def test_all_steps_are_a_convolution(tile, pad):
    case = SHAPE | {"pad": pad}
    x, w, b = random(1, 2, 6, 5, 7), random(2, 5, 6, 3, 3), random(3, 5)
    (out_h, out_w), _ = tiles_of(tile, case)
    residual = random(4, 2, 5, out_h, out_w)
    u = transform_filter(w, tile).transpose(1, 2, 0)[..., None]
    m = multiply(transform_input(tile, case, x), u)
    attributes = {"strides": (1, 1), "pads": (*pad, *pad), "dilations": (1, 1), "group": 1, "activation": "relu"}
    expected = oracle("Conv", [x, w, b, residual], attributes)
    assert_close(transform_output(tile, case, m, b, residual, "relu"), expected, Precision.FP32)
