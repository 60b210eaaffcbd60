"""Conv: 1x1, depthwise, Winograd or direct; in buffers (NHWC) or images."""

from __future__ import annotations

import numpy as np

from runtime.graph import Array, Node
from runtime.layout.winograd import transform_filter
from runtime.lowering.activation import activation
from runtime.lowering.builder import Builder, Rows
from runtime.lowering.operators import convolution_image
from runtime.lowering.value import Value
from runtime.operators import Shape
from runtime.plan.plan import Shown
from runtime.plan.records import Storage

# Below these, the transforms cost more than the saved multiplications.
_WINOGRAD_MIN_CHANNELS = 16


def lower_conv(builder: Builder, node: Node) -> None:
    """Chooses the algorithm from the shapes and emits it."""
    conv = Convolution(builder, node)
    if convolution_image.lower(builder, node):
        return
    if conv.is_depthwise:
        conv.emit_depthwise()
    elif conv.is_pointwise:
        conv.emit_pointwise()
    elif conv.is_winograd:
        conv.emit_winograd()
    else:
        conv.emit_direct()


class Convolution:
    """One Conv node and what every algorithm needs of it."""

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder, self.node = builder, node
        graph = builder.graph
        self.x_shape, self.y_shape = graph.shape(node.inputs[0]), graph.shape(node.output)
        self.filter: Array = graph.constants[node.inputs[1]]
        self.group: int = node.attrs["group"]
        self.strides: Shape = node.attrs["strides"]
        self.pads: Shape = node.attrs["pads"]
        self.dilations: Shape = node.attrs["dilations"]

    @property
    def kernel(self) -> Shape:
        """Filter (height, width)."""
        return tuple(self.filter.shape[2:])

    @property
    def is_depthwise(self) -> bool:
        """One filter a channel."""
        return self.group == self.x_shape[1] == self.y_shape[1] and self.group > 1

    @property
    def is_pointwise(self) -> bool:
        """A matrix product of pixels and filters."""
        plain = self.strides == (1, 1) and not any(self.pads) and self.group == 1
        return self.kernel == (1, 1) and plain

    @property
    def is_winograd(self) -> bool:
        """Asked for, 3x3, dense, stride 1, and wide enough to gain."""
        plain = self.kernel == (3, 3) and self.strides == (1, 1) and self.dilations == (1, 1) and self.group == 1
        wide = min(self.x_shape[1], self.y_shape[1]) >= _WINOGRAD_MIN_CHANNELS
        return bool(self.builder.options.winograd) and plain and wide

    @property
    def shown(self) -> Shown:
        """What profiles print."""
        return Shown(self.y_shape, self.filter.shape, self.strides, self.pads, self.dilations)

    def bias(self) -> Value:
        """The bias, zeros where the node has none."""
        name = self.node.input(2)
        data = self.builder.graph.constants[name] if name else np.zeros(self.y_shape[1], np.float32)
        return self.builder.constant(name or f"{self.node.name}:bias", data)

    def residual(self, fallback: Value) -> tuple[Value, int]:
        """The tensor added before the activation, and the RESIDUAL option; `fallback` stands for a missing one."""
        name = self.node.input(3)
        return (self.builder.read(name, Storage.NHWC), 1) if name else (fallback, 0)

    def window(self) -> dict[str, int]:
        """Dims that describe the sliding window."""
        (in_h, in_w), (out_h, out_w) = self.x_shape[2:], self.y_shape[2:]
        dims = {"batch": self.x_shape[0], "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w}
        dims |= {"k_h": self.kernel[0], "k_w": self.kernel[1], "stride_h": self.strides[0], "stride_w": self.strides[1]}
        dims |= {"pad_t": self.pads[0], "pad_l": self.pads[1], "dil_h": self.dilations[0], "dil_w": self.dilations[1]}
        return dims

    def rows(self) -> Rows:
        """Filter as [groups, output channels, k_h * k_w * input channels]."""
        out_c = self.y_shape[1] // self.group
        ordered = self.filter.transpose(0, 2, 3, 1)  # channels last, as the activations lie
        return Rows(self.node.inputs[1], ordered.reshape(self.group, out_c, -1))

    def emit(self, kernel: str, op: str, dims: dict[str, int], weights: Value | Rows) -> None:
        """One launch of a whole convolution."""
        builder, node = self.builder, self.node
        x = builder.read(node.inputs[0], Storage.NHWC)
        residual, has_residual = self.residual(x)
        code, numbers = activation(node.attrs)
        tensors: dict[str, Value | Rows] = {"x": x, "w": weights, "b": self.bias(), "residual": residual}
        tensors["zeros"] = builder.zeros(self.x_shape[1])
        tensors["y"] = builder.write(node.output, Storage.NHWC)
        defines = {"ACTIVATION": code, "RESIDUAL": has_residual}
        builder.launch(kernel, node.name, op, tensors, dims, numbers, defines, self.shown)

    def emit_pointwise(self) -> None:
        """A product of pixels x input channels with the filters."""
        n, in_c, h, w = self.x_shape
        self.emit("conv1x1", "Conv2D", {"pixels": n * h * w, "in_c": in_c, "out_c": self.y_shape[1]}, self.rows())

    def emit_depthwise(self) -> None:
        """Filters laid [k_h * k_w][channels]."""
        taps = self.filter.reshape(self.group, -1).T
        weights = self.builder.constant(self.node.inputs[1], np.ascontiguousarray(taps))
        self.emit("depthwise", "DepthwiseConv2d", self.window() | {"channels": self.group}, weights)

    def emit_direct(self) -> None:
        """Any window, any group."""
        per_group = {"in_c": self.x_shape[1] // self.group, "out_c": self.y_shape[1] // self.group}
        self.emit("conv2d", "Conv2D", self.window() | per_group | {"groups": self.group}, self.rows())

    def emit_winograd(self) -> None:
        """Transform of the input, a product for each point, transform of the output."""
        builder, node, tile = self.builder, self.node, self.builder.options.winograd
        n, in_c, in_h, in_w = self.x_shape
        _, out_c, out_h, out_w = self.y_shape
        tiles_h, tiles_w = -(-out_h // tile), -(-out_w // tile)
        tiles, points = n * tiles_h * tiles_w, (tile + 2) ** 2
        x = builder.read(node.inputs[0], Storage.NHWC)
        v = builder.scratch(f"{node.name}:v", points * tiles * in_c)
        m = builder.scratch(f"{node.name}:m", points * tiles * out_c)
        grid = {"batch": n, "tiles_h": tiles_h, "tiles_w": tiles_w}
        padding = {"pad_t": self.pads[0], "pad_l": self.pads[1]}
        dims = grid | padding | {"in_h": in_h, "in_w": in_w, "in_c": in_c}
        defines = {"WINO": tile}
        name, op = node.name, "WinogradTransform"
        builder.launch("winograd_input", f"{name}:input", op, {"x": x, "v": v}, dims, defines=defines)
        gemm: dict[str, Value | Rows] = {"v": v, "u": winograd_rows(node.inputs[1], self.filter, tile), "m": m}
        dims = {"tiles": tiles, "in_c": in_c, "out_c": out_c}
        builder.launch("winograd_gemm", name, "Conv2D", gemm, dims, defines=defines, shown=self.shown)
        residual, has_residual = self.residual(x)
        code, numbers = activation(node.attrs)
        y = builder.write(node.output, Storage.NHWC)
        tensors: dict[str, Value | Rows] = {"m": m, "b": self.bias(), "residual": residual, "y": y}
        dims = grid | {"out_h": out_h, "out_w": out_w, "out_c": out_c}
        defines = {"WINO": tile, "ACTIVATION": code, "RESIDUAL": has_residual}
        builder.launch("winograd_output", f"{name}:output", "WinogradInverse", tensors, dims, numbers, defines)


def winograd_rows(name: str, weights: Array, tile: int) -> Rows:
    """Transformed filters [(tile + 2)^2, output channels, input channels]."""
    transformed = transform_filter(weights, tile)
    out_c, in_c = weights.shape[:2]
    return Rows(name, transformed.transpose(2, 3, 0, 1).reshape(-1, out_c, in_c))


LOWERINGS = {"Conv": lower_conv}
