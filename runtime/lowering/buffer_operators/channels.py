"""Operators along the channels of NHWC: scale and shift, local response normalisation, shuffle, resize."""

from __future__ import annotations

from runtime.graph import Node
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.launch import Tensors
from runtime.lowering.resizing import resize_dims, resize_kernel, resize_numbers, resize_tables
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_scale_shift(builder: Builder, node: Node) -> None:
    """Lowers BatchNormalization: y = activation(x * s[c] + t[c])."""
    shape = builder.graph.shape(node.inputs[0])
    if len(shape) not in (2, 4):
        raise node_error(node, f"an input of shape {shape}; 2 or 4 axes are supported")
    storage = Storage.NHWC if len(shape) == 4 else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    scale, shift = (builder.constant(name, builder.graph.constants[name]) for name in node.inputs[1:3])
    code, numbers = activation_code(node.attrs)
    dims = {"pixels": x.pixels if len(shape) == 4 else shape[0], "channels": shape[1]}
    tensors = {"x": x, "s": scale, "t": shift, "y": y}
    shown = ProfileInfo(y.shape)
    builder.launch("scale_shift", node.name, "BatchNorm", tensors, dims, numbers, {"ACTIVATION": code}, shown)


def lower_lrn(builder: Builder, node: Node) -> None:
    """Lowers LRN: y = x / (bias + alpha / size * sum of squares over `size` channels) ^ beta."""
    if len(builder.graph.shape(node.inputs[0])) != 4:
        raise node_error(node, "4 axes are supported")
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    dims = {"pixels": x.pixels, "channels": x.shape[1], "size": node.attrs["size"]}
    numbers = {key: float(node.attrs[key]) for key in ("alpha", "beta", "bias")}
    builder.launch("lrn", node.name, "LRN", {"x": x, "y": y}, dims, numbers, shown=ProfileInfo(y.shape))


def lower_shuffle(builder: Builder, node: Node) -> None:
    """Lowers ChannelShuffle: channel (i, j) of [groups, channels/groups] goes to channel (j, i)."""
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    group = node.attrs["group"]
    inner = x.shape[1] // group
    shape, source, target = (x.pixels, group, inner), (x.stride, inner, 1), (y.stride, 1, group)
    builder.strided_copy(node.name, "ChannelShuffle", x, y, shape, source, target)


def lower_resize(builder: Builder, node: Node) -> None:
    """Lowers Resize, by nearest or linear interpolation."""
    dims, numbers = resize_dims(builder.graph, node), resize_numbers(builder.graph, node)
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    tensors: Tensors = {"x": x, "y": y, **resize_tables(builder, node)}
    builder.launch(resize_kernel(node), node.name, "Resize", tensors, dims, numbers, shown=ProfileInfo(y.shape))


LOWERINGS = {
    "BatchNormalization": lower_scale_shift,
    "LRN": lower_lrn,
    "ChannelShuffle": lower_shuffle,
    "Resize": lower_resize,
}
