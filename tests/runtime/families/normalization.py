"""What tests launch the kernels of normalization with, and what they compute."""

import dataclasses

import numpy as np

from runtime.semantics.unary import Unary
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, activate, nest
from tests.runtime.kernel_cases import EXTENTS, TABLE, UNBOUNDED, Case, fused, row_major

AXES = ("batch", "channel", "pixel")


def softmax(outer: int, length: int, inner: int, log: int = 0, order: tuple[int, int, int] = (0, 1, 2)) -> Case:
    """`order`: which of the loops (outer, length, inner) lies outermost, ..., innermost in both tensors."""
    extents = (outer, length, inner)
    dense = row_major(tuple(extents[axis] for axis in order))
    strides = {axis: dense[place] for place, axis in enumerate(order)}
    names = {0: "outer_stride", 1: "stride", 2: "inner_stride"}
    dims = {"outer": outer, "length": length, "inner": inner}
    dims |= {f"{tensor}_{name}": strides[axis] for tensor in "xy" for axis, name in names.items()}
    return Case(TABLE["softmax"], dims, {"LOG": log})


def lrn(pixels: int, channels: int, size: int) -> Case:
    dims = {"pixels": pixels, "channels": channels, "size": size}
    return Case(TABLE["lrn"], dims, {}, {"alpha": 0.3, "beta": 0.75, "bias": 1.5})


def scale_shift(pixels: int, channels: int, activation: int = 0) -> Case:
    return fused("scale_shift", {"pixels": pixels, "channels": channels}, activation)


def layer_norm(rows: int, length: int, centered: int = 1, activation: int = 0) -> Case:
    """Rows of a matrix that is as wide as a row is long."""
    strides = {
        f"{tensor}_{axis}_stride": step for tensor in "xy" for axis, step in zip(AXES, (length, 1, 1), strict=True)
    }
    dims = {"batch": rows, "groups": 1, "channels": length, "pixels": 1, "centered": centered}
    return normalization(dims | strides, activation)


def group_norm(batch: int, groups: int, channels: int, pixels: int, nhwc: bool = True, activation: int = 0) -> Case:
    """Groups of so many channels, in NHWC with gaps or in NCHW; NHWC out."""
    width = groups * channels
    steps = (pixels * (width + 3), 1, width + 3) if nhwc else (width * pixels, pixels, 1)
    strides = {f"x_{axis}_stride": step for axis, step in zip(AXES, steps, strict=True)}
    strides |= {f"y_{axis}_stride": step for axis, step in zip(AXES, (pixels * width, 1, width), strict=True)}
    dims = {"batch": batch, "groups": groups, "channels": channels, "pixels": pixels, "centered": 1}
    return normalization(dims | strides, activation)


def normalization(dims: dict[str, int], activation: int) -> Case:
    case = fused("normalization", dims, activation)
    return dataclasses.replace(case, floats={"epsilon": 0.01, **case.floats})


def compute_softmax(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    loops = [dims["outer"], dims["length"], dims["inner"]]
    x = nest(arrays["x"], loops, [dims["x_outer_stride"], dims["x_stride"], dims["x_inner_stride"]])
    powers = np.exp(x - x.max(1, keepdims=True))
    result = powers / powers.sum(1, keepdims=True)
    return np.log(result) if defines["LOG"] else result


def compute_scale_shift(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    return activate(arrays["x"] * arrays["s"] + arrays["t"], defines, floats)


def compute_normalization(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    """Returns [batch, pixels, all channels]."""
    batch, groups, channels, pixels = (dims[name] for name in ("batch", "groups", "channels", "pixels"))
    steps = [dims[f"x_{axis}_stride"] for axis in ("batch", "channel", "channel", "pixel")]
    steps[1] *= channels
    x = nest(arrays["x"], [batch, groups, channels, pixels], steps)
    v = x - x.mean((2, 3), keepdims=True) if dims["centered"] else x
    v = v / np.sqrt((v * v).mean((2, 3), keepdims=True) + floats["epsilon"])
    rows = v.transpose(0, 3, 1, 2).reshape(batch, pixels, groups * channels)
    return activate(rows * arrays["s"] + arrays["t"], defines, floats)


def compute_lrn(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    x, size = arrays["x"], dims["size"]
    sums = np.zeros_like(x)
    for c in range(dims["channels"]):
        sums[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
    return x / (floats["bias"] + floats["alpha"] / size * sums) ** floats["beta"]


CASES: dict[str, Case] = {
    "scale_shift": scale_shift(13, 19),
    "normalization rows": layer_norm(5, 37),
    "normalization row": layer_norm(1, 192, activation=Unary.GELU),
    "normalization rms": layer_norm(3, 64, centered=0),
    "normalization short rows": layer_norm(19, 3, activation=Unary.SWISH),
    "normalization groups": group_norm(2, 3, 7, 10),
    "normalization groups of 16": group_norm(1, 2, 16, 9, activation=Unary.TANH),
    "normalization instances": group_norm(2, 5, 1, 21),
    "normalization groups NCHW": group_norm(2, 3, 2, 35, nhwc=False),
    "normalization instances NCHW": group_norm(1, 4, 1, 33, nhwc=False),
    "scale_shift relu": scale_shift(7, 16, Unary.HARD_SWISH),
    "lrn 5": lrn(6, 19, 5),
    "lrn 4": lrn(3, 32, 4),
    "lrn wide": lrn(2, 3, 9),
    "softmax row": softmax(1, 1000, 1),
    "softmax rows": softmax(5, 37, 1),
    "softmax row short": softmax(3, 3, 1),
    "softmax inner": softmax(2, 9, 19),
    "softmax strided": softmax(3, 7, 5, order=(0, 2, 1)),
    "softmax log": softmax(2, 21, 1, log=1),
}
ORACLES = {
    "softmax": compute_softmax,
    "scale_shift": compute_scale_shift,
    "normalization": compute_normalization,
    "lrn": compute_lrn,
}
IMAGE_CASES = {
    "softmax": (EXTENTS, (), {"LOG": 0}),
    "normalization": (EXTENTS | {"groups": 6, "spatial": 1, "centered": 1}, (0.1, *UNBOUNDED), {"ACTIVATION": 0}),
    "lrn": (EXTENTS | {"size": 3}, (0.5, 0.75, 1.0), {}),
    "scale_shift": (EXTENTS, UNBOUNDED, {"ACTIVATION": 0}),
}
