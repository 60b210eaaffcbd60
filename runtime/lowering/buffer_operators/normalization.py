"""Lowers layer, group, instance and root-mean-square normalisation on buffers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from runtime.graph import Node
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.normalization import scale_and_shift
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

Strides = tuple[int, int, int]  # of batch, channel and pixel


def lower_layer_normalization(builder: Builder, node: Node) -> None:
    """Lowers LayerNormalization: each row, or each pixel of an image, is one group."""
    shape, axes = builder.graph.shape(node.output), node.attrs["axes"]
    length = math.prod(shape[axis] for axis in axes)
    by_pixel = axes == (1,) and len(shape) == 4
    storage = Storage.NHWC if by_pixel else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    steps = [(value.stride, 1, 1) if by_pixel else (length, 1, 1) for value in (x, y)]
    dims = {"batch": math.prod(shape) // length, "groups": 1, "channels": length, "pixels": 1}
    _emit(builder, node, x, y, dims | {"centered": int(node.attrs["centered"])}, steps)


def lower_group_normalization(builder: Builder, node: Node) -> None:
    """Lowers GroupNormalization over NHWC, or over row-major memory where there are not four axes."""
    shape = builder.graph.shape(node.output)
    pixels = math.prod(shape[2:])
    storage = Storage.NHWC if len(shape) == 4 else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    steps = [_steps(value, pixels) for value in (x, y)]
    groups = node.attrs["groups"]
    dims = {"batch": shape[0], "groups": groups, "channels": shape[1] // groups, "pixels": pixels, "centered": 1}
    _emit(builder, node, x, y, dims, steps)


def _steps(value: Value, pixels: int) -> Strides:
    if value.storage == Storage.NHWC:
        return pixels * value.stride, 1, value.stride
    return value.shape[1] * pixels, pixels, 1


def _emit(builder: Builder, node: Node, x: Value, y: Value, dims: Mapping[str, int], steps: list[Strides]) -> None:
    names = [f"{tensor}_{axis}_stride" for tensor in "xy" for axis in ("batch", "channel", "pixel")]
    strides = dict(zip(names, (*steps[0], *steps[1]), strict=True))
    channels = dims["groups"] * dims["channels"]
    scale, shift = (builder.constant(name, data) for name, data in scale_and_shift(builder.graph, node, channels))
    tensors: Tensors = {"x": x, "s": scale, "t": shift, "y": y}
    code, numbers = activation_code(node.attrs)
    floats = {"epsilon": node.attrs["epsilon"], **numbers}
    defines, shown = {"ACTIVATION": code}, ProfileInfo(y.shape)
    builder.launch("normalization", node.name, node.op, tensors, {**dims, **strides}, floats, defines, shown)


LOWERINGS = {
    "LayerNormalization": lower_layer_normalization,
    "GroupNormalization": lower_group_normalization,
}
