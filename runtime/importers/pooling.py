"""MaxPool, AveragePool and the global pools.

Global pooling, and an average over the whole image, become ReduceMean and ReduceMax.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.windows import ceil_excess, pair, resolve_pads

_GLOBAL = {"axes": (2, 3), "keepdims": True}


def _max_pool(node: OnnxNode, builder: GraphBuilder) -> None:
    node.only("storage_order", 0)
    kernel, strides, pads, excess = _window(node, builder)
    attributes = {"kernel": kernel, "strides": strides, "pads": _extended(pads, excess)}
    builder.emit(node, "MaxPool", [node.input(0)], attributes, node.output)


def _average_pool(node: OnnxNode, builder: GraphBuilder) -> None:
    x, include = node.input(0), bool(node.integer("count_include_pad", 0))
    kernel, strides, pads, excess = _window(node, builder)
    if include and any(excess):
        # The divisor counts the model's padding, but not the rows that only ceil_mode reads.
        before, after = (0, 0, *pads[:2]), (0, 0, *pads[2:])
        x = builder.emit(node, "Pad", [x], {"pads": (*before, *after), "value": 0.0, "mode": "constant"})
        pads, include = (0, 0, 0, 0), False
    pads = _extended(pads, excess)
    if kernel == builder.shape(x)[2:] and not any(pads):
        builder.emit(node, "ReduceMean", [x], _GLOBAL, node.output)
        return
    attributes = {"kernel": kernel, "strides": strides, "pads": pads, "count_include_pad": include and any(pads)}
    builder.emit(node, "AveragePool", [x], attributes, node.output)


def _window(
    node: OnnxNode, builder: GraphBuilder
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, int]]:
    """Returns kernel, strides, pads, and the rows and columns that ceil_mode adds at the end."""
    x = builder.shape(node.input(0))
    if len(x) != 4:
        raise node.unsupported("input shape", x, "2D pooling, four axes")
    kernel, strides = pair(node, "kernel_shape", ()), pair(node, "strides")
    if pair(node, "dilations") != (1, 1):
        raise node.unsupported("dilations", list(node.integers("dilations")), "[1, 1]")
    pads = resolve_pads(node, x[2:], kernel, strides)
    ceil = node.integer("ceil_mode", 0)
    if ceil and node.text("auto_pad", "NOTSET") != "NOTSET":
        raise node.unsupported("ceil_mode", ceil, "0 together with auto_pad, whose sizes ONNX leaves open otherwise")
    return kernel, strides, pads, ceil_excess(x[2:], kernel, strides, pads) if ceil else (0, 0)


def _extended(pads: tuple[int, ...], excess: tuple[int, int]) -> tuple[int, ...]:
    return (*pads[:2], pads[2] + excess[0], pads[3] + excess[1])


def _global(op: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        x = builder.shape(node.input(0))
        if len(x) != 4:
            raise node.unsupported("input shape", x, "2D pooling, four axes")
        builder.emit(node, op, [node.input(0)], _GLOBAL, node.output)

    return handle


OPERATORS: Mapping[str, Handler] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global("ReduceMean"),
    "GlobalMaxPool": _global("ReduceMax"),
}
