"""Operators along the channels of NHWC: scale and shift, local response normalisation, shuffle, resize."""

from __future__ import annotations

from runtime.graph import Node
from runtime.kernels.codes import Resize
from runtime.lowering.activation import activation
from runtime.lowering.builder import Builder, node_error
from runtime.plan.plan import Shown
from runtime.plan.records import Storage


def lower_scale_shift(builder: Builder, node: Node) -> None:
    """y = act(x * s[c] + t[c])."""
    shape = builder.graph.shape(node.inputs[0])
    if len(shape) not in (2, 4):
        raise node_error(node, f"an input of shape {shape}; 2 or 4 axes are supported")
    storage = Storage.NHWC if len(shape) == 4 else Storage.FLAT
    x, y = builder.read(node.inputs[0], storage), builder.write(node.output, storage)
    scale, shift = (builder.constant(name, builder.graph.constants[name]) for name in node.inputs[1:3])
    code, numbers = activation(node.attrs)
    dims = {"pixels": x.pixels if len(shape) == 4 else shape[0], "channels": shape[1]}
    tensors = {"x": x, "s": scale, "t": shift, "y": y}
    shown = Shown(y.shape)
    builder.launch("scale_shift", node.name, "BatchNorm", tensors, dims, numbers, {"ACTIVATION": code}, shown)


def lower_lrn(builder: Builder, node: Node) -> None:
    """y = x / (bias + alpha / size * sum of squares over `size` channels) ^ beta."""
    if len(builder.graph.shape(node.inputs[0])) != 4:
        raise node_error(node, "4 axes are supported")
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    dims = {"pixels": x.pixels, "channels": x.shape[1], "size": node.attrs["size"]}
    numbers = {key: float(node.attrs[key]) for key in ("alpha", "beta", "bias")}
    builder.launch("lrn", node.name, "LRN", {"x": x, "y": y}, dims, numbers, shown=Shown(y.shape))


def lower_shuffle(builder: Builder, node: Node) -> None:
    """Channel (i, j) of [groups, channels/groups] goes to channel (j, i)."""
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    group = node.attrs["group"]
    inner = x.shape[1] // group
    shape, source, target = (x.pixels, group, inner), (x.stride, inner, 1), (y.stride, 1, group)
    builder.strided_copy(node.name, "ChannelShuffle", x, y, shape, source, target)


def lower_resize(builder: Builder, node: Node) -> None:
    """Source coordinate = output coordinate * scale + shift, then nearest or linear interpolation."""
    attrs = node.attrs
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    n, channels, in_h, in_w = x.shape
    out_h, out_w = y.shape[2:]
    dims = {"batch": n, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w}
    dims["round_mode"] = _ROUND_MODES.index(attrs["nearest_mode"])
    mode = attrs["coordinate_transformation_mode"]
    scale_h, shift_h = _coordinates(mode, in_h, out_h, attrs["scales"][0])
    scale_w, shift_w = _coordinates(mode, in_w, out_w, attrs["scales"][1])
    numbers = {"scale_h": scale_h, "scale_w": scale_w, "shift_h": shift_h, "shift_w": shift_w}
    kind = Resize.NEAREST if attrs["mode"] == "nearest" else Resize.BILINEAR
    tensors = {"x": x, "y": y}
    builder.launch("resize", node.name, "Resize", tensors, dims, numbers, {"RESIZE": kind}, Shown(y.shape))


_ROUND_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _coordinates(mode: str, size: int, out: int, scale: float) -> tuple[float, float]:
    """(scale, shift) of the source coordinate (ONNX, Resize, coordinate_transformation_mode)."""
    if mode == "align_corners":
        return ((size - 1) / (out - 1) if out > 1 else 0.0), 0.0
    if mode == "asymmetric":
        return 1 / scale, 0.0
    if mode == "pytorch_half_pixel" and out == 1:
        return 0.0, 0.0
    return 1 / scale, 0.5 / scale - 0.5


LOWERINGS = {
    "BatchNormalization": lower_scale_shift,
    "LRN": lower_lrn,
    "ChannelShuffle": lower_shuffle,
    "Resize": lower_resize,
}
