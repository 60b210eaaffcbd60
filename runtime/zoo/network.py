"""Builds the layers of a convolutional network as ONNX nodes, and counts what they cost.

A network under construction holds nodes and the *shapes* of its parameters; their values come later, from
`runtime.zoo.calibration`. Names: a layer `fire2/squeeze` has parameters `fire2/squeeze.weight`, `fire2/squeeze.bias`,
and its output tensor carries the layer's name.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from onnx import NodeProto, helper

from runtime.graph import Array
from runtime.zoo.calibration import calibrated_parameters
from runtime.zoo.skeleton import Skeleton

Padding = Literal["same", "valid"] | int
Pads = tuple[int, int, int, int]

INPUT = "input"
OUTPUT = "prob"


class LayerTensor(NamedTuple):
    """An activation's name, and its shape without the batch."""

    name: str
    channels: int
    height: int
    width: int


class Layers:
    """Nodes in execution order, shapes of inputs, outputs and parameters, and the multiply-accumulates of one input."""

    opset = 13

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.inputs: dict[str, tuple[int | str, ...]] = {}
        self.integers: frozenset[str] = frozenset()  # inputs of int64
        self.outputs: dict[str, tuple[int | str, ...]] = {}
        self.parameters: dict[str, tuple[int, ...]] = {}
        self.constants: dict[str, Array] = {}
        self.macs = 0
        self.batch = 1  # of a network in which it is not open

    def parameter_count(self) -> int:
        """Counts the trained parameters as papers do: without the running statistics of batch normalization."""
        trained = (shape for name, shape in self.parameters.items() if not name.endswith(("bn.mean", "bn.var")))
        return sum(math.prod(shape) for shape in trained)

    def skeleton(self, name: str) -> Skeleton:
        """The network without its parameters' values."""
        constants = dict(self.constants)
        return Skeleton(
            name, self.opset, self.nodes, self.parameters, constants, self.inputs, self.outputs, self.integers
        )

    def values(self, skeleton: Skeleton, seed: int) -> dict[str, Array]:
        """Seeded values of the parameters, the same on every CPU."""
        raise NotImplementedError

    def _node(self, op: str, name: str, *inputs: str, **attributes: float | Sequence[int]) -> None:
        node = helper.make_node(op, inputs, [name], name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)


Kind = TypeVar("Kind", bound=Layers)


@dataclasses.dataclass(frozen=True)
class Architecture(Generic[Kind]):
    """A published network: how it is built, and its published size and classes.

    The size is an image's side in pixels, or the places of a sequence.
    """

    name: str
    network: Callable[[int], Kind]
    assemble: Callable[[Kind, float, int], None]
    size: int
    min_size: int
    classes: int
    paper: str


def scaled(channels: int, width: float, divisor: int = 1) -> int:
    """Multiplies channels by the width, rounded to a multiple of `divisor`, but never below 8 or 90 % of the product.

    Source: `_make_divisible` as described in the MobileNetV2 release.
    """
    exact = channels * width
    rounded = max(8, int(exact + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * exact else rounded + divisor


class Network(Layers):
    """A convolutional network of square images, whose batch is open."""

    def __init__(self, size: int, channels: int = 3) -> None:
        super().__init__()
        self.input = LayerTensor(INPUT, channels, size, size)
        self.inputs = {INPUT: ("N", channels, size, size)}

    def values(self, skeleton: Skeleton, seed: int) -> dict[str, Array]:
        """See Layers."""
        return calibrated_parameters(skeleton, seed)

    def conv(
        self,
        x: LayerTensor,
        name: str,
        channels: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: Padding = "same",
        groups: int = 1,
        bias: bool = False,
    ) -> LayerTensor:
        """Adds a 2-D convolution; its weights are OIHW."""
        window = _pair(kernel)
        self.parameters[f"{name}.weight"] = (channels, x.channels // groups, *window)
        if bias:
            self.parameters[f"{name}.bias"] = (channels,)
        pads = _pads(x, window, stride, padding)
        parameters = [f"{name}.weight", *([f"{name}.bias"] if bias else [])]
        self._node(
            "Conv", name, x.name, *parameters, kernel_shape=window, strides=[stride] * 2, pads=pads, group=groups
        )
        out = LayerTensor(name, channels, *_pooled_size(x, window, stride, pads))
        self.macs += out.height * out.width * math.prod(self.parameters[f"{name}.weight"])
        return out

    def batch_norm(self, x: LayerTensor, epsilon: float = 1e-3) -> LayerTensor:
        """Adds a batch normalization over the channels, as a node of its own."""
        name = f"{x.name}/bn"
        parameters = [f"{name}.{part}" for part in ("scale", "bias", "mean", "var")]
        self.parameters |= dict.fromkeys(parameters, (x.channels,))
        self._node("BatchNormalization", name, x.name, *parameters, epsilon=epsilon)
        return x._replace(name=name)

    def relu(self, x: LayerTensor) -> LayerTensor:
        """Adds a ReLU: max(x, 0)."""
        self._node("Relu", f"{x.name}/relu", x.name)
        return x._replace(name=f"{x.name}/relu")

    def relu6(self, x: LayerTensor) -> LayerTensor:
        """Adds a ReLU6: min(max(x, 0), 6)."""
        self.constants |= {"relu6.min": np.array(0, np.float32), "relu6.max": np.array(6, np.float32)}
        self._node("Clip", f"{x.name}/relu6", x.name, "relu6.min", "relu6.max")
        return x._replace(name=f"{x.name}/relu6")

    def hard_sigmoid(self, x: LayerTensor) -> LayerTensor:
        """Adds a hard sigmoid: min(max(x / 6 + 1/2, 0), 1)."""
        self._node("HardSigmoid", f"{x.name}/hard_sigmoid", x.name, alpha=1 / 6, beta=0.5)
        return x._replace(name=f"{x.name}/hard_sigmoid")

    def hard_swish(self, x: LayerTensor) -> LayerTensor:
        """Adds a hard swish, x times its hard sigmoid, as frameworks export it below ONNX's operator set 14."""
        return self.multiply(x, self.hard_sigmoid(x), f"{x.name}/hard_swish")

    def max_pool(self, x: LayerTensor, name: str, kernel: int, stride: int, *, ceil: bool = False) -> LayerTensor:
        """Adds a max pooling without padding; `ceil` keeps the incomplete window at the end, as Caffe does."""
        window = _pair(kernel)
        attributes = {"ceil_mode": 1} if ceil else {}
        self._node("MaxPool", name, x.name, kernel_shape=window, strides=[stride] * 2, **attributes)
        return LayerTensor(name, x.channels, *_pooled_size(x, window, stride, (0, 0, 0, 0), ceil))

    def average_pool(self, x: LayerTensor, name: str, kernel: int) -> LayerTensor:
        """Adds an average pooling with stride 1 that keeps the size; padding is left out of the average."""
        window = _pair(kernel)
        pads = _pads(x, window, 1, "same")
        self._node("AveragePool", name, x.name, kernel_shape=window, strides=[1, 1], pads=pads, count_include_pad=0)
        return x._replace(name=name)

    def global_average_pool(self, x: LayerTensor, name: str = "pool") -> LayerTensor:
        """Adds the mean over height and width, which stay as axes of size 1."""
        self._node("GlobalAveragePool", name, x.name)
        return LayerTensor(name, x.channels, 1, 1)

    def concat(self, tensors: list[LayerTensor], name: str) -> LayerTensor:
        """Joins tensors along the channels."""
        self._node("Concat", name, *(x.name for x in tensors), axis=1)
        return tensors[0]._replace(name=name, channels=sum(x.channels for x in tensors))

    def add(self, a: LayerTensor, b: LayerTensor, name: str) -> LayerTensor:
        """Adds the element-wise sum of two tensors of one shape."""
        self._node("Add", name, a.name, b.name)
        return a._replace(name=name)

    def multiply(self, a: LayerTensor, b: LayerTensor, name: str) -> LayerTensor:
        """Adds the element-wise product of two tensors, of which the second may have one pixel for all."""
        self._node("Mul", name, a.name, b.name)
        return a._replace(name=name)

    def flatten(self, x: LayerTensor) -> LayerTensor:
        """Adds a reshape from (N, C, H, W) to (N, C * H * W)."""
        self._node("Flatten", "flatten", x.name, axis=1)
        return LayerTensor("flatten", x.channels * x.height * x.width, 1, 1)

    def fully_connected(self, x: LayerTensor, name: str, features: int) -> LayerTensor:
        """Adds the product of a flat tensor with weights (features, inputs), plus a bias."""
        self.parameters |= {f"{name}.weight": (features, x.channels), f"{name}.bias": (features,)}
        self._node("Gemm", name, x.name, f"{name}.weight", f"{name}.bias", transB=1)
        self.macs += features * x.channels
        return LayerTensor(name, features, 1, 1)

    def softmax(self, x: LayerTensor) -> None:
        """Ends the network with a softmax: class probabilities of shape (N, classes)."""
        self._node("Softmax", OUTPUT, x.name, axis=1)
        self.outputs = {OUTPUT: ("N", x.channels)}


def _pair(kernel: int | tuple[int, int]) -> tuple[int, int]:
    return (kernel, kernel) if isinstance(kernel, int) else kernel


def _pads(x: LayerTensor, window: tuple[int, int], stride: int, padding: Padding) -> Pads:
    """Returns pads (top, left, bottom, right).

    `same` is TensorFlow's: ceil(size / stride) outputs, and an odd pixel of padding stands at the end.
    """
    if padding == "valid":
        padding = 0
    if isinstance(padding, int):
        return (padding, padding, padding, padding)
    top, bottom = _same_pads(x.height, window[0], stride)
    left, right = _same_pads(x.width, window[1], stride)
    return (top, left, bottom, right)


def _same_pads(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _pooled_size(
    x: LayerTensor, window: tuple[int, int], stride: int, pads: Pads, ceil: bool = False
) -> tuple[int, int]:
    def steps(size: int, kernel: int, padding: int) -> int:
        span = size + padding - kernel
        return (math.ceil(span / stride) if ceil else span // stride) + 1

    return steps(x.height, window[0], pads[0] + pads[2]), steps(x.width, window[1], pads[1] + pads[3])
