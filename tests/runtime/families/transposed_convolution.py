"""What tests launch the kernels of transposed convolution with, and what they compute."""

import itertools
import math
from collections.abc import Callable

import numpy as np

from runtime.semantics.unary import Unary
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, finish
from tests.runtime.kernel_cases import EPILOGUE, SAME, UNBOUNDED, WINDOW, Case, fused

SPREAD = WINDOW | {"batch": 2, "in_h": 3, "in_w": 6, "out_h": 5, "out_w": 6, "step_h": 2, "step_w": 1}


def spread(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    batch: int = 1,
) -> dict[str, int]:
    """Dims of a transposed convolution; pads are top, left, bottom, right, and negative ones add to the output."""
    out = [(size[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - pad[i] - pad[i + 2] for i in range(2)]
    step = [stride[i] // math.gcd(stride[i], dilation[i]) for i in range(2)]
    pairs = {"in": size, "out": out, "k": kernel, "stride": stride, "dil": dilation, "step": step}
    dims = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return dims | {"batch": batch, "pad_t": pad[0], "pad_l": pad[1]}


def deconv2d(in_c: int, out_c: int, groups: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    dims = shape | {"in_c": in_c, "out_c": out_c, "groups": groups}
    return fused("deconv2d", dims, activation, residual)


def deconv_depthwise(channels: int, shape: dict[str, int], activation: int = 0, residual: int = 0) -> Case:
    return fused("deconv_depthwise", shape | {"channels": channels}, activation, residual)


def tap_order(dims: Dims) -> list[tuple[int, int]]:
    """The taps as their weights lie: by row class, column class, row, column."""
    taps = itertools.product(range(dims["k_h"]), range(dims["k_w"]))
    return sorted(taps, key=lambda t: (t[0] % dims["step_h"], t[1] % dims["step_w"], *t))


def scattered(arrays: Arrays, dims: Dims, multiply: Callable[[Array, Array], Array], weights: Array) -> Array:
    """Adds what each tap makes of each input pixel [batch, channels] to where it lands, as [pixels, channels]."""
    image = arrays["x"].reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    result = np.zeros((dims["batch"], dims["out_h"], dims["out_w"], arrays["b"].size))
    for index, (i, j) in enumerate(tap_order(dims)):
        for h, w in itertools.product(range(dims["in_h"]), range(dims["in_w"])):
            row = h * dims["stride_h"] + i * dims["dil_h"] - dims["pad_t"]
            column = w * dims["stride_w"] + j * dims["dil_w"] - dims["pad_l"]
            if 0 <= row < dims["out_h"] and 0 <= column < dims["out_w"]:
                result[:, row, column] += multiply(image[:, h, w], weights[index])
    return result.reshape(-1, arrays["b"].size)


def compute_deconv2d(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    groups, in_c, out_c = (dims[name] for name in ("groups", "in_c", "out_c"))
    weights = arrays["w"].reshape(groups, out_c, -1, in_c).transpose(2, 0, 1, 3)

    def multiply(pixel: Array, weight: Array) -> Array:
        return np.einsum("ngc,goc->ngo", pixel.reshape(-1, groups, in_c), weight).reshape(-1, groups * out_c)

    return finish(scattered(arrays, dims, multiply, weights), arrays, defines, floats)


def compute_deconv_depthwise(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    weights = arrays["w"].reshape(-1, dims["channels"])
    return finish(scattered(arrays, dims, np.multiply, weights), arrays, defines, floats)


CASES: dict[str, Case] = {
    "deconv2d 2x2 stride 2": deconv2d(9, 21, 1, spread((4, 5), (2, 2), (2, 2)), residual=1),
    "deconv2d 4x4 stride 2": deconv2d(5, 37, 1, spread((4, 6), (4, 4), (2, 2), SAME, batch=2), Unary.LEAKY_RELU),
    "deconv2d 3x3 uneven": deconv2d(7, 64, 1, spread((8, 8), (3, 3), (2, 2), (1, 1, 0, 0))),
    "deconv2d 8x8": deconv2d(16, 64, 1, spread((8, 8), (3, 3), pad=SAME)),
    "deconv2d gaps": deconv2d(3, 8, 1, spread((3, 4), (2, 2), (4, 3))),
    "deconv2d dilation": deconv2d(4, 16, 1, spread((5, 6), (3, 3), (2, 3), (1, 2, 0, 1), (4, 2)), residual=1),
    "deconv2d negative pads": deconv2d(3, 5, 1, spread((3, 3), (3, 2), (2, 1), (-1, -2, -3, 1))),
    "deconv2d groups": deconv2d(6, 5, 3, spread((3, 4), (3, 4), (2, 2), SAME, batch=2), residual=1),
    "deconv2d one pixel": deconv2d(1, 1, 1, spread((1, 1), (1, 1))),
    "deconv2d from one pixel": deconv2d(32, 16, 1, spread((1, 1), (4, 4))),
    "deconv_depthwise 4x4 stride 2": deconv_depthwise(19, spread((5, 6), (4, 4), (2, 2), SAME, batch=2), residual=1),
    "deconv_depthwise 16x16 stride 8": deconv_depthwise(21, spread((3, 4), (16, 16), (8, 8), (4, 4, 4, 4))),
    "deconv_depthwise gaps": deconv_depthwise(8, spread((4, 7), (2, 3), (3, 5)), Unary.ELU),
    "deconv_depthwise dilation": deconv_depthwise(5, spread((6, 5), (3, 2), (2, 3), (2, 0, 1, 3), (3, 6))),
    "deconv_depthwise one": deconv_depthwise(1, spread((1, 3), (3, 3), pad=(1, 1, 1, 1))),
}
ORACLES = {"deconv2d": compute_deconv2d, "deconv_depthwise": compute_deconv_depthwise}
IMAGE_CASES = {
    "deconv2d": (SPREAD | {"in_c": 4, "out_c": 8, "groups": 2}, UNBOUNDED, EPILOGUE),
    "deconv_depthwise": (SPREAD | {"channels": 6}, UNBOUNDED, EPILOGUE),
}
