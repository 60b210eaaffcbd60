"""Networks on which data formats matter, in NCHW: of the zoo, a UNet, squeeze and excitation, channel shuffles."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from runtime import zoo

OPSET = 13
IR_VERSION = 8
SEED = 3
INPUT, OUTPUT = "image", "result"


class _Layers:
    """Adds the layers of a network one by one; every method returns the name of its output."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._random = np.random.default_rng(SEED)
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, npt.NDArray[Any]] = {}

    def constant(self, value: npt.NDArray[Any]) -> str:
        name = f"constant{len(self._constants)}"
        self._constants[name] = value
        return name

    def weights(self, *shape: int) -> str:
        spread = 1 / math.sqrt(max(1, math.prod(shape[1:])))
        return self.constant((self._random.standard_normal(shape) * spread).astype(np.float32))

    def add(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{op.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 3, group: int = 1, stride: int = 1) -> str:
        """A convolution with a bias and a batch norm."""
        weights = [self.weights(outputs, inputs // group, kernel, kernel), self.weights(outputs)]
        window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2}
        y = self.add("Conv", x, *weights, group=group, **window)
        spread = self.constant(np.linspace(0.5, 1.5, outputs, dtype=np.float32))
        return self.add("BatchNormalization", y, *(self.weights(outputs) for _ in range(3)), spread)

    def hard_swish(self, x: str) -> str:
        """x * clip(x + 3, 0, 6) / 6, as exporters write it."""
        three, zero, six = (self.constant(np.array(value, np.float32)) for value in (3, 0, 6))
        clipped = self.add("Clip", self.add("Add", x, three), zero, six)
        return self.add("Div", self.add("Mul", x, clipped), six)

    def gate(self, x: str, channels: int, dense: bool) -> str:
        """Squeeze and excitation: two layers, convolutions or dense ones, weigh the channels."""
        y = self.add("GlobalAveragePool", x)
        y = self.add("Flatten", y) if dense else y
        sizes = ((channels // 4, channels), (channels, channels // 4))
        for (outputs, inputs), activation in zip(sizes, ("Relu", "Sigmoid"), strict=True):
            weights = self.weights(outputs, inputs, *(() if dense else (1, 1)))
            layer = "Gemm" if dense else "Conv"
            attributes: dict[str, Any] = {"transB": 1} if dense else {}
            y = self.add(layer, y, weights, self.weights(outputs), **attributes)
            y = self.add(activation, y)
        if dense:
            y = self.add("Reshape", y, self.constant(np.array([1, channels, 1, 1])))
        return self.add("Mul", x, y)

    def shuffle(self, x: str, shape: tuple[int, int, int, int], groups: int) -> str:
        """Channels of all groups in turn."""
        n, c, h, w = shape
        y = self.add("Reshape", x, self.constant(np.array([n, groups, c // groups, h, w])))
        y = self.add("Transpose", y, perm=[0, 2, 1, 3, 4])
        return self.add("Reshape", y, self.constant(np.array(shape)))

    def model(self, name: str) -> onnx.ModelProto:
        """The network; its image is batch, 3, size, size."""
        image = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 3, self._size, self._size])
        result = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(value, key) for key, value in self._constants.items()]
        graph = helper.make_graph(self._nodes, name, [image], [result], weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION), data_prop=True
        )


def unet(size: int) -> onnx.ModelProto:
    """Two levels down and up again, with skips; a class for each pixel."""
    net = _Layers(size)
    skips, x, channels = [], INPUT, 3
    for wide in (8, 16):
        x = net.add("Relu", net.conv(x, channels, wide))
        skips.append((x, wide))
        x, channels = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), wide
    x, channels = net.add("Relu", net.conv(x, channels, 32)), 32
    for skip, wide in reversed(skips):
        up: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
        x = net.add("ConvTranspose", x, net.weights(channels, wide, 2, 2), net.weights(wide), **up)
        x = net.add("Concat", x, skip, axis=1)
        x, channels = net.add("Relu", net.conv(x, 2 * wide, wide)), wide
    net.add("Softmax", net.conv(x, channels, 4, kernel=1), axis=1, output=OUTPUT)
    return net.model("unet")


def squeeze_and_excitation(size: int) -> onnx.ModelProto:
    """Inverted residuals as in MobileNetV3, with gates of convolutions and of dense layers, and hard swish."""
    net = _Layers(size)
    x = net.hard_swish(net.conv(INPUT, 3, 8, stride=2))
    for dense in (False, True, False):
        y = net.hard_swish(net.conv(x, 8, 24, kernel=1))
        y = net.add("Relu", net.conv(y, 24, 24, group=24))
        x = net.add("Add", net.conv(net.gate(y, 24, dense), 24, 8, kernel=1), x)
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    x = net.add("Gemm", x, net.weights(10, 8), net.weights(10), transB=1)
    net.add("Softmax", x, axis=1, output=OUTPUT)
    return net.model("squeeze_and_excitation")


def shuffled_groups(size: int) -> onnx.ModelProto:
    """Residual blocks of grouped convolutions with a channel shuffle between, and a dense layer on the whole image."""
    net = _Layers(size)
    small = size // 4
    x = net.add("Relu", net.conv(INPUT, 3, 12, stride=4))
    for _ in range(2):
        y = net.add("Relu", net.conv(x, 12, 12, kernel=1, group=3))
        y = net.conv(net.shuffle(y, (1, 12, small, small), 3), 12, 12, group=12)
        x = net.add("Relu", net.add("Add", x, net.conv(y, 12, 12, kernel=1, group=3)))
    x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    flat = net.add("Flatten", x)
    net.add("Gemm", flat, net.weights(5, 12 * (small // 2) ** 2), net.weights(5), transB=1, output=OUTPUT)
    return net.model("shuffled_groups")


def reflected_middle(size: int) -> onnx.ModelProto:
    """Convolutions that move much memory around eight light blocks.

    A block is a reflecting Pad, which only buffers serve, and a depthwise convolution; so a network that is in images
    wherever it can be has a conversion before and behind each Pad.
    """
    net = _Layers(size)
    x, channels = INPUT, 3
    for _ in range(6):
        x, channels = net.add("Relu", net.conv(x, channels, 32, kernel=1)), 32
    for _ in range(8):
        x = net.add("Pad", x, net.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])), mode="reflect")
        weights = [net.weights(channels, 1, 3, 3), net.weights(channels)]
        x = net.add("Relu", net.add("Conv", x, *weights, group=channels, kernel_shape=[3, 3]))
    for _ in range(6):
        x = net.add("Relu", net.conv(x, channels, channels, kernel=1))
    net.add("Conv", x, net.weights(8, channels, 1, 1), net.weights(8), kernel_shape=[1, 1], output=OUTPUT)
    return net.model("reflected_middle")


def _of_the_zoo(name: str) -> Callable[[int], onnx.ModelProto]:
    def build(size: int) -> onnx.ModelProto:
        model = zoo.build(name, width=0.25, size=size)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        return model

    return build


NETWORKS: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    **{name: _of_the_zoo(name) for name in ("mobilenet_v2", "squeezenet_v11", "resnet50")},
    "unet": unet,
    "squeeze_and_excitation": squeeze_and_excitation,
    "shuffled_groups": shuffled_groups,
}
