"""What tests launch the kernels of convolution with, and what they compute."""

from __future__ import annotations

import numpy as np

from runtime.kernels.codes import BYTES_ONCE, Residual
from runtime.layout.winograd import INPUT_TRANSFORM, OUTPUT_TRANSFORM
from runtime.semantics.unary import ACTIVATIONS, Unary
from runtime.types import Dot
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, finish, taps
from tests.runtime.kernel_cases import (
    EPILOGUE,
    SAME,
    SPATIAL,
    TABLE,
    UNBOUNDED,
    WINDOW,
    Case,
    by_dots,
    by_fixed_point,
    fused,
    in_bytes,
    in_integers,
    window,
)

_DOTS = (Dot.KHRONOS, Dot.QUALCOMM, Dot.ARM)
TILES = {"batch": 2, "tiles_h": 2, "tiles_w": 3}


def conv2d(in_c: int, out_c: int, groups: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    dims = shape | {"in_c": in_c, "out_c": out_c, "groups": groups}
    return fused("conv2d", dims, activation, residual)


def conv2d_planes(in_c: int, out_c: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    return fused("conv2d_planes", shape | {"in_c": in_c, "out_c": out_c}, activation, residual)


def conv1x1(pixels: int, in_c: int, out_c: int, activation: int = 0, residual: int = 0) -> Case:
    return fused("conv1x1", {"pixels": pixels, "in_c": in_c, "out_c": out_c}, activation, residual)


def depthwise(channels: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    return fused("depthwise", shape | {"channels": channels}, activation, residual)


def winograd(tile: int, size: tuple[int, int], in_c: int, out_c: int, batch: int = 1) -> list[Case]:
    """The three steps of a 3x3 convolution with padding 1."""
    grid = {"batch": batch, "tiles_h": -(-size[0] // tile), "tiles_w": -(-size[1] // tile)}
    tiles = batch * grid["tiles_h"] * grid["tiles_w"]
    wino = {"WINO": tile}
    inputs = grid | {"in_h": size[0], "in_w": size[1], "in_c": in_c, "pad_t": 1, "pad_l": 1}
    outputs = grid | {"out_h": size[0], "out_w": size[1], "out_c": out_c}
    products = {"points": (tile + 2) ** 2, "tiles": tiles, "in_c": in_c, "out_c": out_c}
    return [
        Case(TABLE["winograd_input"], inputs, wino),
        Case(TABLE["winograd_gemm"], products, wino),
        fused("winograd_output", outputs, Unary.CLAMP, 1, **wino),
    ]


def compute_conv2d(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    windows = taps(arrays["x"], dims, 0.0)
    per_group = windows.reshape(*windows.shape[:5], dims["groups"], dims["in_c"])
    weights = arrays["w"].reshape(dims["groups"], dims["out_c"], dims["k_h"], dims["k_w"], dims["in_c"])
    sums = np.einsum("nhwijgc,goijc->nhwgo", per_group, weights, optimize=True)
    return finish(sums.reshape(-1, dims["groups"] * dims["out_c"]), arrays, defines, floats)


def compute_conv2d_planes(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    batch, in_c, rows, columns = (dims[name] for name in ("batch", "in_c", "in_h", "in_w"))
    pixels = arrays["x"].reshape(batch, in_c, rows, columns).transpose(0, 2, 3, 1).reshape(-1, in_c)
    windows = taps(pixels, dims, 0.0)
    weights = arrays["w"].reshape(dims["out_c"], in_c, dims["k_h"], dims["k_w"])
    sums = np.einsum("nhwijc,ocij->nhwo", windows, weights, optimize=True)
    return finish(sums.reshape(-1, dims["out_c"]), arrays, defines, floats)


def compute_conv1x1(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return finish(arrays["x"] @ arrays["w"][0].T, arrays, defines, floats)


def compute_depthwise(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    taps_of, scales = np.split(arrays["w"], [dims["k_h"] * dims["k_w"] * dims["channels"]])
    weights = taps_of.reshape(dims["k_h"], dims["k_w"], dims["channels"]) * (scales if scales.size else 1)
    sums = np.einsum("nhwijc,ijc->nhwc", taps(arrays["x"], dims, 0.0), weights)
    return finish(sums.reshape(-1, dims["channels"]), arrays, defines, floats)


def compute_winograd_input(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    tile, alpha = defines["WINO"], defines["WINO"] + 2
    window = {"out_h": dims["tiles_h"], "out_w": dims["tiles_w"], "k_h": alpha, "k_w": alpha, "stride_h": tile}
    patches = taps(arrays["x"], dict(dims) | window | {"stride_w": tile, "dil_h": 1, "dil_w": 1}, 0.0)
    matrix = INPUT_TRANSFORM[tile]
    return np.einsum("ai,nhwijc,bj->abnhwc", matrix, patches, matrix, optimize=True)


def compute_winograd_gemm(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    v = arrays["v"].reshape(dims["points"], dims["tiles"], dims["in_c"])
    return v @ arrays["u"].transpose(0, 2, 1)


def compute_winograd_output(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    tile, alpha = defines["WINO"], defines["WINO"] + 2
    m = arrays["m"].reshape(alpha, alpha, dims["batch"], dims["tiles_h"], dims["tiles_w"], dims["out_c"])
    matrix = OUTPUT_TRANSFORM[tile]
    tiles = np.einsum("ia,abnhwc,jb->nhiwjc", matrix, m, matrix, optimize=True)
    image = tiles.reshape(dims["batch"], dims["tiles_h"] * tile, dims["tiles_w"] * tile, -1)
    inside = image[:, : dims["out_h"], : dims["out_w"]].reshape(-1, dims["out_c"])
    return finish(inside, arrays, defines, floats)


CASES: dict[str, Case] = {
    "conv2d 3x3 same": conv2d(5, 7, 1, window((6, 5), (3, 3), pad=SAME)),
    "conv2d 3x3 wide": conv2d(19, 37, 1, window((5, 7), (3, 3), pad=SAME), residual=1),
    "conv2d 3x3 stride 2": conv2d(3, 16, 1, window((11, 9), (3, 3), (2, 2), pad=SAME)),
    "conv2d first layer": conv2d(3, 24, 1, window((15, 17), (7, 7), (2, 2), pad=(3, 3, 3, 3), batch=2)),
    "conv2d 1x1 stride 2": conv2d(8, 8, 1, window((7, 7), (1, 1), (2, 2))),
    "conv2d 5x2 uneven": conv2d(4, 9, 1, window((9, 6), (5, 2), (2, 1), pad=(2, 0, 1, 1))),
    "conv2d dilation": conv2d(6, 10, 1, window((9, 11), (3, 3), pad=(2, 3, 2, 3), dilation=(2, 3))),
    "conv2d groups": conv2d(6, 5, 3, window((6, 5), (3, 3), pad=SAME, batch=2), residual=1),
    "conv2d last block of 64 without a vector": conv2d(2, 112, 1, window((4, 3), (2, 2))),
    "conv2d last block of 48 without a vector": conv2d(2, 125, 1, window((4, 4), (2, 2)), residual=1),
    "conv2d one pixel": conv2d(1, 1, 1, window((1, 1), (1, 1))),
    "conv2d 8 bits": in_integers(conv2d(20, 37, 1, window((5, 7), (3, 3), pad=SAME), residual=1), 8),
    "conv2d 4 bits groups": in_integers(conv2d(32, 21, 2, window((5, 5), (3, 3))), 4),
    "conv2d 4 bits in groups": in_integers(conv2d(64, 20, 1, window((4, 5), (3, 2), (2, 1), pad=SAME)), 4, 32),
    "conv2d planes 3x3 stride 2": conv2d_planes(3, 32, window((11, 9), (3, 3), (2, 2), pad=SAME), Unary.CLAMP),
    "conv2d planes 7x7": conv2d_planes(3, 24, window((15, 17), (7, 7), (2, 2), pad=(3, 3, 3, 3), batch=2)),
    "conv2d planes inside": conv2d_planes(4, 37, window((9, 12), (3, 3), batch=2), residual=1),
    "conv2d planes 5x2 uneven": conv2d_planes(2, 9, window((9, 6), (5, 2), (2, 1), pad=(2, 0, 1, 1))),
    "conv2d planes dilation": conv2d_planes(3, 10, window((9, 11), (3, 3), pad=(2, 3, 2, 3), dilation=(2, 3))),
    "conv2d planes last block of 64": conv2d_planes(2, 112, window((4, 3), (2, 2))),
    "conv2d planes last block of 48": conv2d_planes(2, 125, window((4, 4), (2, 2)), residual=1),
    "conv2d planes rows": conv2d_planes(
        3, 112, window((9, 33), (3, 3), (1, 2), pad=(1, 1, 1, 1), dilation=(1, 2), batch=2)
    ),
    "conv2d planes rows of few channels": conv2d_planes(
        3, 16, window((7, 57), (3, 3), (2, 2), pad=(1, 1, 1, 1), batch=2), Unary.CLAMP, residual=1
    ),
    "conv2d planes of short rows": conv2d_planes(2, 64, window((4, 4), (2, 2), (2, 2))),
    "conv2d planes one pixel": conv2d_planes(1, 1, window((1, 1), (1, 1))),
    "conv2d window beyond": conv2d(4, 4, 1, window((2, 2), (5, 5), pad=(2, 2, 2, 2))),
    **{f"conv1x1 {a.name}": conv1x1(13, 9, 21, a, residual=a % 2) for a in ACTIVATIONS},
    "conv1x1 one pixel": conv1x1(1, 33, 40),
    "conv1x1 one channel": conv1x1(5, 1, 1),
    "conv1x1 two rows": conv1x1(2, 33, 112, residual=1),
    "conv1x1 three rows": conv1x1(3, 9, 120),
    "conv1x1 blocks": conv1x1(64, 32, 64),
    "conv1x1 7x7": conv1x1(49, 64, 70, residual=1),
    "conv1x1 gate": conv1x1(13, 9, 37, Unary.SWISH, residual=Residual.MULTIPLY),
    "conv1x1 last block of 64 without a vector": conv1x1(13, 3, 112, residual=1),
    "conv1x1 last block of 48 without a vector": conv1x1(20, 3, 125),
    "conv1x1 8 bits": in_integers(conv1x1(19, 72, 40, residual=1), 8),
    "conv1x1 8 bits, last block of 64": in_integers(conv1x1(14, 20, 112), 8),
    "conv1x1 8 bits, last block of 48": in_integers(conv1x1(20, 12, 125), 8),
    "conv1x1 8 bits, two rows": in_integers(conv1x1(2, 72, 112, residual=1), 8),
    "conv1x1 4 bits in groups, three rows": in_integers(conv1x1(3, 64, 112), 4, 16),
    "conv1x1 of bytes, two rows": in_bytes(in_integers(conv1x1(2, 24, 112), 8), 5),
    "conv1x1 4 bits": in_integers(conv1x1(13, 40, 64, Unary.SWISH), 4),
    "conv1x1 4 bits in groups": in_integers(conv1x1(9, 64, 40), 4, 16),
    "conv1x1 from bytes": in_bytes(in_integers(conv1x1(19, 72, 40), 8), 4),
    "conv1x1 of bytes": in_bytes(in_integers(conv1x1(14, 24, 112), 8), 5),
    "conv2d of bytes": in_bytes(in_integers(conv2d(20, 37, 1, window((5, 7), (3, 3), pad=SAME)), 8), 5),
    "conv1x1 whole sums": in_bytes(in_integers(conv1x1(19, 1032, 44), 8), 5),
    **{f"conv1x1 dots {dot.name}": by_dots(in_bytes(in_integers(conv1x1(14, 72, 112), 8), 5), dot) for dot in _DOTS},
    **{
        f"conv2d dots {dot.name}": by_dots(
            in_bytes(in_integers(conv2d(20, 37, 1, window((5, 7), (3, 3), pad=SAME), residual=1), 8), 4), dot
        )
        for dot in _DOTS
    },
    "conv1x1 by fixed point": by_fixed_point(in_integers(conv1x1(14, 72, 112), 8), 112),
    "conv1x1 by fixed point, once": by_fixed_point(in_integers(conv1x1(19, 24, 44), 8), 44, BYTES_ONCE),
    "conv2d by fixed point": by_dots(
        by_fixed_point(in_integers(conv2d(20, 18, 2, window((5, 7), (3, 3), pad=SAME)), 8), 36), Dot.ARM
    ),
    "depthwise by fixed point": by_fixed_point(depthwise(19, window((7, 9), (3, 3), pad=SAME, batch=2)), 19),
    "depthwise 5x3 by fixed point": by_fixed_point(depthwise(5, window((9, 8), (5, 3), (2, 2), pad=SAME)), 5),
    "conv2d from bytes": in_bytes(conv2d(5, 17, 1, window((6, 5), (3, 3), (2, 2), pad=SAME)), 4),
    "depthwise of bytes": in_bytes(depthwise(19, window((7, 9), (3, 3), pad=SAME, batch=2)), 5),
    "depthwise from bytes": in_bytes(depthwise(16, window((10, 11), (5, 3), (2, 2), pad=(2, 1, 2, 1))), 4),
    "depthwise 3x3 same": depthwise(19, window((7, 9), (3, 3), pad=SAME, batch=2), residual=1),
    "depthwise 3x3 blocks": depthwise(32, window((14, 14), (3, 3), pad=SAME), Unary.LEAKY_RELU),
    "depthwise 3x3 stride 2": depthwise(16, window((10, 11), (3, 3), (2, 2), pad=(0, 0, 1, 1))),
    "depthwise 5x5 stride 2": depthwise(5, window((12, 9), (5, 5), (2, 3), pad=(2, 2, 2, 2))),
    "depthwise 5x5 same": depthwise(35, window((8, 9), (5, 5), pad=(2, 2, 2, 2), batch=2), residual=1),
    "depthwise 5x5 stride 2 both ways": depthwise(32, window((13, 10), (5, 5), (2, 2), pad=(2, 2, 2, 2))),
    "depthwise dilation": depthwise(8, window((9, 8), (3, 2), pad=(2, 2, 2, 1), dilation=(2, 3))),
    "depthwise one pixel": depthwise(1, window((1, 1), (3, 3), pad=SAME)),
    **{f"{c.kernel.name} F{t}": c for t in (2, 4) for c in winograd(t, (7, 9), 19, 21, batch=2)},
    **{f"{c.kernel.name} F{t} even": c for t in (2, 4) for c in winograd(t, (8, 8), 16, 16)},
    **{f"{c.kernel.name} F2 of {out}": c for out in (45, 112) for c in winograd(2, (8, 6), 3, out)},
}
ORACLES = {
    "conv2d": compute_conv2d,
    "conv2d_planes": compute_conv2d_planes,
    "conv1x1": compute_conv1x1,
    "depthwise": compute_depthwise,
    "winograd_input": compute_winograd_input,
    "winograd_gemm": compute_winograd_gemm,
    "winograd_output": compute_winograd_output,
}
IMAGE_CASES = {
    "conv2d": (SPATIAL | WINDOW | {"in_c": 4, "out_c": 8, "groups": 2}, UNBOUNDED, EPILOGUE),
    "conv1x1": ({"rows": 3, "width": 5, "in_c": 6, "out_c": 9}, UNBOUNDED, EPILOGUE),
    "depthwise": (SPATIAL | WINDOW | {"channels": 6}, UNBOUNDED, EPILOGUE),
    "winograd_input": (TILES | {"in_h": 3, "in_w": 5, "in_c": 6, "pad_t": 1, "pad_l": 1}, (), {"WINO": 2}),
    "winograd_gemm": ({"points": 16, "tiles": 7, "in_c": 6, "out_c": 9}, (), {"WINO": 2}),
    "winograd_output": (TILES | {"out_h": 3, "out_w": 5, "out_c": 6}, UNBOUNDED, EPILOGUE | {"WINO": 2}),
}
