"""Describes a Conv node for the lowering to buffers and to images alike."""

import functools
import math

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.lowering.builder import Builder
from runtime.peaks import modelled_algorithm, peaks_of
from runtime.plan.plan import ProfileInfo
from runtime.semantics.shape_functions import Shape
from runtime.types import Algorithm

# Below these channels, Winograd's transforms cost more than the saved multiplications.
_WINOGRAD_MIN_CHANNELS = 16


def takes_winograd(graph: Graph, node: Node) -> bool:
    """Whether Winograd's algorithm computes a convolution: 3x3, stride 1, one group."""
    attrs, window = node.attrs, graph.shape(node.inputs[1])[2:]
    return window == (3, 3) and attrs["strides"] == attrs["dilations"] == (1, 1) and attrs["group"] == 1


def gains_by_winograd(graph: Graph, node: Node) -> bool:
    """Whether a convolution that Winograd's algorithm computes has channels enough to gain by it."""
    channels = min(graph.shape(node.inputs[0])[1], graph.shape(node.output)[1])
    return takes_winograd(graph, node) and channels >= _WINOGRAD_MIN_CHANNELS


class Convolution:
    """One Conv node, and what every algorithm for it needs to know."""

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
    def taps(self) -> int:
        """Pixels of the window."""
        return math.prod(self.kernel)

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has one filter of its own."""
        return self.group == self.x_shape[1] == self.y_shape[1] and self.group > 1

    @property
    def is_pointwise(self) -> bool:
        """Whether the filter is 1x1 with stride 1, so that it is a matrix product of pixels and filters."""
        plain = self.strides == (1, 1) and not any(self.pads) and self.group == 1
        return self.kernel == (1, 1) and plain

    @property
    def is_matrix(self) -> bool:
        """Whether one window covers the whole input, so that it is a fully connected layer."""
        whole = self.kernel == self.x_shape[2:] and self.y_shape[2:] == (1, 1)
        return whole and not any(self.pads) and self.group == 1 and not self.node.input(3)

    @property
    def is_winograd(self) -> bool:
        """Whether Winograd's algorithm is asked for and serves."""
        return self.algorithm != Algorithm.DIRECT

    @functools.cached_property
    def algorithm(self) -> Algorithm:
        """The one that was chosen or asked for; DIRECT where Winograd's does not serve."""
        if not gains_by_winograd(self.builder.graph, self.node):
            return Algorithm.DIRECT
        if self.builder.chosen:
            return self.builder.chosen.algorithm
        first, *others = self.builder.options.algorithms_on(self.builder.target)
        return self._modelled_algorithm() if others else first

    def _modelled_algorithm(self) -> Algorithm:
        """The algorithm of the least modelled time for this layer."""
        target, image = self.builder.target, self.builder.target.memory == "image"
        return modelled_algorithm(self.x_shape, self.y_shape, target.element_bytes, peaks_of(target), image)

    @property
    def shown(self) -> ProfileInfo:
        """What profiles print."""
        return ProfileInfo(self.y_shape, self.filter.shape, self.strides, self.pads, self.dilations)

    def bias_data(self) -> Array:
        """The bias, zeros where the node has none."""
        name = self.node.input(2)
        return self.builder.graph.constants[name] if name else np.zeros(self.y_shape[1], np.float32)

    def per_group(self) -> dict[str, int]:
        """Channels of one group."""
        return {"in_c": self.x_shape[1] // self.group, "out_c": self.y_shape[1] // self.group}

    def window(self) -> dict[str, int]:
        """Dims that describe the sliding window."""
        (in_h, in_w), (out_h, out_w) = self.x_shape[2:], self.y_shape[2:]
        dims = {"batch": self.x_shape[0], "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w}
        dims |= {"k_h": self.kernel[0], "k_w": self.kernel[1], "stride_h": self.strides[0], "stride_w": self.strides[1]}
        dims |= {"pad_t": self.pads[0], "pad_l": self.pads[1], "dil_h": self.dilations[0], "dil_w": self.dilations[1]}
        return dims
