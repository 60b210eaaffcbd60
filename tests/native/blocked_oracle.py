"""Operators on blocked tensors in NumPy, and tensors and filters brought into blocks."""

from collections.abc import Mapping

import numpy as np

from runtime.kernels.codes import Pooling
from runtime.layout.winograd import transform_filter
from runtime.semantics.unary import Unary
from tests.native.plans import Floats
from tests.runtime.buffer_oracle import activate

Ints = Mapping[str, int]


def blocked(values: Floats, block: int, filler: float = 0.0) -> Floats:
    """[n, c, h, w] as [n, ceil(c/block), h, w, block]; lanes behind the last channel hold `filler`."""
    n, c, h, w = values.shape
    blocks = -(-c // block)
    made = np.full((n, blocks * block, h, w), filler, values.dtype)
    made[:, :c] = values
    return np.ascontiguousarray(made.reshape(n, blocks, block, h, w).transpose(0, 1, 3, 4, 2))


def unblocked(values: Floats, channels: int) -> Floats:
    """The reverse of `blocked`."""
    n, blocks, h, w, block = values.shape
    return values.transpose(0, 1, 4, 2, 3).reshape(n, blocks * block, h, w)[:, :channels]


def blocked_filters(weights: Floats, groups: int, block: int) -> Floats:
    """[groups * o, i, kh, kw] as [groups][ceil(o/block)][kh][kw][i][block], zero-filled."""
    outputs, inputs, k_h, k_w = weights.shape
    outputs //= groups
    blocks = -(-outputs // block)
    made = np.zeros((groups, blocks * block, inputs, k_h, k_w), weights.dtype)
    made[:, :outputs] = weights.reshape(groups, outputs, inputs, k_h, k_w)
    return np.ascontiguousarray(made.reshape(groups, blocks, block, inputs, k_h, k_w).transpose(0, 1, 4, 5, 3, 2))


def winograd_filters(weights: Floats, tile: int, block: int) -> Floats:
    """[o, i, 3, 3] as [(tile + 2)^2][ceil(o/block)][i][block], transformed."""
    points = transform_filter(weights, tile)[..., None, None]
    return np.stack([blocked_filters(point, 1, block)[0, :, 0, 0] for point in points])


def blocked_values(values: Floats, groups: int, block: int) -> Floats:
    """One value for each output channel, padded in each group to whole blocks."""
    rows = values.reshape(groups, -1)
    made = np.zeros((groups, -(-rows.shape[1] // block) * block), values.dtype)
    made[:, : rows.shape[1]] = rows
    return made


def windows(x: Floats, d: Ints, filler: float) -> Floats:
    """[n, c, out_h, out_w, k_h, k_w]: what lies under the window, `filler` in the padding."""
    h, w = x.shape[2:]
    bottom = max(0, (d["out_h"] - 1) * d["stride_h"] + (d["k_h"] - 1) * d["dil_h"] + 1 - h - d["pad_t"])
    right = max(0, (d["out_w"] - 1) * d["stride_w"] + (d["k_w"] - 1) * d["dil_w"] + 1 - w - d["pad_l"])
    wide = np.pad(x, ((0, 0), (0, 0), (d["pad_t"], bottom), (d["pad_l"], right)), constant_values=filler)
    rows = np.arange(d["out_h"])[:, None] * d["stride_h"] + np.arange(d["k_h"]) * d["dil_h"]
    columns = np.arange(d["out_w"])[:, None] * d["stride_w"] + np.arange(d["k_w"]) * d["dil_w"]
    return wide[:, :, rows[:, None, :, None], columns[None, :, None, :]]


def convolution(x: Floats, weights: Floats, bias: Floats, d: Ints, groups: int) -> Floats:
    """Of NCHW arrays, in float64."""
    n = x.shape[0]
    seen = windows(x.astype(np.float64), d, 0.0)
    seen = seen.reshape(n, groups, -1, *seen.shape[2:])
    filters = weights.astype(np.float64).reshape(groups, -1, *weights.shape[1:])
    sums = np.einsum("ngihwkl,goikl->ngohw", seen, filters, optimize=True)
    made: Floats = sums.reshape(n, -1, *sums.shape[3:]) + bias[:, None, None]
    return made


def activated(values: Floats, activation: int, a: float, b: float) -> Floats:
    made = activate(values.astype(np.float64), {"ACTIVATION": activation}, {"act_a": a, "act_b": b})
    return made.astype(np.float32)


def pool(x: Floats, d: Ints, pooling: int) -> Floats:
    """Of NCHW arrays."""
    if pooling == Pooling.MAX:
        largest: Floats = windows(x, d, -np.inf).max(axis=(4, 5))
        return largest
    counted = windows(np.ones_like(x), d, 0.0).sum(axis=(4, 5))
    divisor = d["k_h"] * d["k_w"] if d["count_include_pad"] else counted
    means: Floats = windows(x, d, 0.0).sum(axis=(4, 5)) / divisor
    return means


NO_ACTIVATION = (Unary.CLAMP, -np.inf, np.inf)
