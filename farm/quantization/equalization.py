"""Cross-layer equalisation: each channel between two layers gets the same range in the weights of both.

Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019 (arXiv:1906.04721).
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, numpy_helper

Array = npt.NDArray[Any]

WINDOWED, PRODUCTS = ("Conv", "ConvTranspose"), ("Gemm", "MatMul")  # with channels along the same axis
HOMOGENEOUS = ("Relu", "LeakyRelu")  # f(s x) = s f(x) for every s > 0
SWEEPS, SETTLED = 50, 1e-3  # over all pairs, until no scale is further from 1


@dataclasses.dataclass(frozen=True)
class EqualizedPair:
    """Two nodes with weights: nothing but the second reads what the first computes, as it is or through a ReLU."""

    first: NodeProto
    second: NodeProto

    def equalize(self, values: Mapping[str, Array]) -> float:
        """Scales the weights in place; returns how far the scales are from 1, in natural logarithms."""
        ahead, behind = (_by_channels(node, values[node.input[1]]) for node in (self.first, self.second))
        peaks = np.abs(ahead).max((2, 3)).ravel(), np.abs(behind).max((1, 3)).ravel()
        is_known = np.all([np.isfinite(each) & (each > 0) for each in peaks], 0)
        scales = np.sqrt(np.divide(*peaks, out=np.ones_like(peaks[0]), where=is_known))
        ahead /= scales.reshape(len(ahead), -1, 1, 1)
        behind *= scales.reshape(len(behind), 1, -1, 1)
        for bias in self.first.input[2:]:
            values[bias] /= scales
        return float(np.abs(np.log(scales)).max())


def equalized(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, the same up to rounding, with the weights of its pairs equalised."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    pairs = list(pairs_of(made))
    chosen = {name for pair in pairs for node in (pair.first, pair.second) for name in node.input[1:]}
    tensors = [each for each in made.graph.initializer if each.name in chosen]
    values = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in tensors}
    for _ in range(SWEEPS):
        if max([pair.equalize(values) for pair in pairs], default=0.0) < SETTLED:
            break
    for tensor in tensors:
        tensor.CopyFrom(numpy_helper.from_array(values[tensor.name].astype(np.float32), tensor.name))
    return made


def pairs_of(model: onnx.ModelProto) -> Iterator[EqualizedPair]:
    """The pairs of a model in its order, whose constants nothing else reads."""
    readers = Counter(_read(model.graph))
    alone = {name for name, count in readers.items() if count == 1}
    shapes = {each.name: tuple(each.dims) for each in model.graph.initializer if each.data_type == TensorProto.FLOAT}
    shapes = {name: shape for name, shape in shapes.items() if name in alone}
    reader = {name: node for node in model.graph.node for name in node.input[:1] if name in alone}
    for first in model.graph.node:
        second = reader.get(first.output[0])
        if second is not None and second.op_type in HOMOGENEOUS:
            second = reader.get(second.output[0])
        if second is not None and _fit(first, second, shapes):
            yield EqualizedPair(first, second)


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    """All names that are read, by nodes of inner graphs too, and as outputs."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g)
    yield from (value.name for value in graph.output)


def _fit(first: NodeProto, second: NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether what the first writes along an axis of channels is what the second sums over."""
    nodes = first, second
    if not any({first.op_type, second.op_type} <= {*family} for family in (WINDOWED, PRODUCTS)):
        return False
    if any(node.input[1] not in shapes or _attribute(node, "transA", 0) for node in nodes):
        return False
    if first.op_type in PRODUCTS and any(len(shapes[node.input[1]]) != 2 for node in nodes):
        return False
    ahead, behind = (_by_channels(node, np.empty(shapes[node.input[1]])).shape for node in nodes)
    channels = ahead[0] * ahead[1]
    return channels == behind[0] * behind[2] and all(shapes.get(bias) == (channels,) for bias in first.input[2:])


def _by_channels(node: NodeProto, weight: Array) -> Array:
    """A view of a weight: [groups, outputs of one, inputs of one, all else]."""
    if node.op_type in WINDOWED:
        groups = _attribute(node, "group", 1)
        parted = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
        return parted if node.op_type == "Conv" else parted.swapaxes(1, 2)
    wide = weight if _attribute(node, "transB", 0) else weight.swapaxes(0, 1)
    return wide[None, ..., None]


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)
