"""Imports ONNX's Conv, 2D only, with its padding made explicit."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.windows import pair, resolve_pads


def _conv(node: OnnxNode, builder: GraphBuilder) -> None:
    x, w = builder.shape(node.input(0)), builder.weights(node, 1, "filter")
    if len(x) != 4 or w.ndim != 4:
        raise node.unsupported("input and filter shape", (x, w.shape), "2D convolution, four axes each")
    if node.integers("kernel_shape", w.shape[2:]) != w.shape[2:]:
        raise ModelError(f"{node}: kernel_shape {node.integers('kernel_shape')} differs from the filter's {w.shape}")
    if node.optional(2):
        builder.weights(node, 2, "bias")
    strides, dilations = pair(node, "strides"), pair(node, "dilations")
    window = tuple(dilation * (extent - 1) + 1 for dilation, extent in zip(dilations, w.shape[2:], strict=True))
    attributes = {
        "strides": strides,
        "pads": resolve_pads(node, x[2:], window, strides),
        "dilations": dilations,
        "group": node.integer("group", 1),
    }
    builder.emit(node, "Conv", [node.input(0), node.input(1), node.optional(2)], attributes, node.output)


OPERATORS: Mapping[str, Handler] = {"Conv": _conv}
