"""Networks with transposed convolutions and recurrent layers, as frameworks export them, with seeded weights."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from runtime.graph import Array

OPSET, IR_VERSION, SEED = 17, 8, 11


class ModelMaker:
    """Adds ONNX nodes one by one; every method returns the name of the tensor that it made."""

    def __init__(self, *shape: int) -> None:
        self._random = np.random.default_rng(SEED)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._input = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)

    def constant(self, value: Array) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(value, name))
        return name

    def weights(self, *shape: int, fan_in: int = 0) -> str:
        values = self._random.standard_normal(shape) / np.sqrt(fan_in or max(1, int(np.prod(shape[1:]))))
        return self.constant(values.astype(np.float32))

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"t{len(self._nodes)}_{index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(op, inputs, names, f"n{len(self._nodes)}", **attributes))
        return names[0]

    def conv(self, x: str, inputs: int, outputs: int, k: int = 3, **attributes: object) -> str:
        filters = self.weights(outputs, inputs, k, k)
        return self.node("Conv", x, filters, self.weights(outputs), pads=[k // 2] * 4, **attributes)

    def conv_transpose(self, x: str, inputs: int, outputs: int, k: int, group: int = 1, **attributes: object) -> str:
        filters = self.weights(inputs, outputs // group, k, k, fan_in=inputs // group * 4)
        return self.node("ConvTranspose", x, filters, group=group, strides=[2, 2], **attributes)

    def batch_norm(self, x: str, channels: int) -> str:
        scale, shift, mean = (self.weights(channels) for _ in range(3))
        variance = self.constant(self._random.uniform(0.5, 2, channels).astype(np.float32))
        return self.node("BatchNormalization", x, scale, shift, mean, variance)

    def finish(self, x: str) -> onnx.ModelProto:
        output = helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, "net", [self._input], [output], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def unet() -> onnx.ModelProto:
    """Two levels down and up: 2x2 transposed convolutions, joined with what went down, then a bilinear upsampling."""
    make = ModelMaker(1, 3, 32, 48)
    first = make.node("Relu", make.batch_norm(make.conv("x", 3, 8), 8))
    second = make.node("Relu", make.conv(make.node("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), 8, 16))
    third = make.node("Relu", make.conv(make.node("MaxPool", second, kernel_shape=[2, 2], strides=[2, 2]), 16, 32))
    up = make.node("Concat", second, make.conv_transpose(third, 32, 16, 2), axis=1)
    up = make.node("Relu", make.conv(up, 32, 16))
    up = make.node("Concat", first, make.node("Relu", make.conv_transpose(up, 16, 8, 2)), axis=1)
    classes = make.conv(make.node("Relu", make.conv(up, 16, 8)), 8, 5, k=1)
    row = np.array([0.25, 0.75, 0.75, 0.25], np.float32)
    bilinear = make.constant(np.broadcast_to(np.outer(row, row), (5, 1, 4, 4)).copy())
    return make.finish(make.node("ConvTranspose", classes, bilinear, group=5, strides=[2, 2], pads=[1] * 4))


def generator() -> onnx.ModelProto:
    """A DCGAN's generator: from one pixel to an image, with batch norms; a residual joins one level."""
    make = ModelMaker(1, 24, 1, 1)
    filters = make.weights(24, 32, 4, 4, fan_in=24)
    x = make.node("Relu", make.batch_norm(make.node("ConvTranspose", "x", filters), 32))
    x = make.node("Relu", make.batch_norm(make.conv_transpose(x, 32, 16, 4, pads=[1] * 4), 16))
    grouped = make.batch_norm(make.conv_transpose(x, 16, 16, 4, group=4, pads=[1] * 4), 16)
    skipped = make.conv_transpose(x, 16, 16, 3, pads=[1] * 4, output_padding=[1, 1])
    x = make.node("LeakyRelu", make.node("Add", grouped, skipped), alpha=0.2)
    return make.finish(make.node("Tanh", make.conv_transpose(x, 16, 3, 4, pads=[1] * 4)))


def crnn() -> onnx.ModelProto:
    """Text recognition: convolutions to a row of columns, two bidirectional LSTMs, and a classifier of each column."""
    make, hidden, columns = ModelMaker(1, 1, 16, 64), 24, 16
    x = make.node("Relu", make.conv("x", 1, 8))
    x = make.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = make.node("Relu", make.batch_norm(make.conv(x, 8, 16), 16))
    x = make.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = make.node("Relu", make.node("Conv", x, make.weights(20, 16, 4, 1)))
    x = make.node("Transpose", make.node("Squeeze", x, make.constant(np.array([2]))), perm=[2, 0, 1])
    for inputs in (20, 2 * hidden):
        weights = [make.weights(2, 4 * hidden, size, fan_in=size) for size in (inputs, hidden)]
        y = make.node("LSTM", x, *weights, make.weights(2, 8 * hidden), hidden_size=hidden, direction="bidirectional")
        shape = make.constant(np.array([columns, 1, 2 * hidden]))
        x = make.node("Reshape", make.node("Transpose", y, perm=[0, 2, 1, 3]), shape)
    logits = make.node("Add", make.node("MatMul", x, make.weights(2 * hidden, 11)), make.weights(11))
    return make.finish(make.node("Softmax", logits, axis=2))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {"unet": unet, "generator": generator, "crnn": crnn}
