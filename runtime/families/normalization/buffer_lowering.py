"""Lowers normalisation, softmax, scale and shift on buffers."""

import math
from collections.abc import Mapping

from runtime.families.normalization.node import scale_and_shift
from runtime.graph import Node
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.iteration import reduced_loops
from runtime.lowering.launch import Tensors
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


def lower_softmax(builder: Builder, node: Node) -> None:
    """Lowers Softmax, exp(x - maximum) / sum of these along one axis, and LogSoftmax, its logarithm."""
    axis, from_blocks = node.attrs["axis"], builder.home(node.inputs[0]).storage == Storage.BLOCKED
    # Neighbours are summed fastest, and blocks are reordered in any case.
    x = builder.read(node.inputs[0], Storage.FLAT) if from_blocks and axis != 1 else builder.read_any(node.inputs[0])
    outer_axes = tuple(other for other in range(len(x.shape)) if other != axis)
    y = builder.write(node.output, x.storage)
    loops = reduced_loops(x, outer_axes, (axis,), tuple(y.strides[other] for other in outer_axes))
    if loops is None:
        x, y = builder.read(node.inputs[0], Storage.FLAT), builder.write(node.output, Storage.FLAT)
        loops = reduced_loops(x, outer_axes, (axis,), tuple(y.strides[other] for other in outer_axes))
    assert loops is not None  # row-major with one axis taken out: at most an outer and an inner loop
    outer, reduced, inner = loops
    dims = {"outer": outer[0], "length": reduced[0], "inner": inner[0]}
    dims |= {"x_outer_stride": outer[1], "x_stride": reduced[1], "x_inner_stride": inner[1]}
    dims |= {"y_outer_stride": outer[2], "y_stride": y.strides[axis], "y_inner_stride": inner[2]}
    defines = {"LOG": int(node.op == "LogSoftmax")}
    builder.launch("softmax", node.name, node.op, {"x": x, "y": y}, dims, defines=defines, shown=ProfileInfo(y.shape))


BUFFER_LOWERINGS = {
    "BatchNormalization": lower_scale_shift,
    "LRN": lower_lrn,
    "LayerNormalization": lower_layer_normalization,
    "GroupNormalization": lower_group_normalization,
    **dict.fromkeys(("Softmax", "LogSoftmax"), lower_softmax),
}
