"""Activations that are one operator of the graph where ONNX defines them by others: Gelu, Swish, Mish, Selu, Celu."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875  # ONNX's defaults


def _gelu(node: OnnxNode, builder: GraphBuilder) -> None:
    approximate = node.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise node.unsupported("approximate", approximate, "none, tanh")
    builder.emit(node, "Gelu" if approximate == "none" else "GeluTanh", [node.input(0)], {}, node.output)


def _swish(node: OnnxNode, builder: GraphBuilder) -> None:
    builder.emit(node, "Swish", [node.input(0)], {"alpha": node.real("alpha", 1.0)}, node.output)


def _mish(node: OnnxNode, builder: GraphBuilder) -> None:
    builder.emit(node, "Mish", [node.input(0)], {}, node.output)


def _selu(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Selu, whose factor `gamma` is the graph's `beta`."""
    attributes = {"alpha": node.real("alpha", _SELU_ALPHA), "beta": node.real("gamma", _SELU_GAMMA)}
    builder.emit(node, "Selu", [node.input(0)], attributes, node.output)


def _celu(node: OnnxNode, builder: GraphBuilder) -> None:
    builder.emit(node, "Celu", [node.input(0)], {"alpha": node.real("alpha", 1.0)}, node.output)


OPERATORS: Mapping[str, Handler] = {"Gelu": _gelu, "Swish": _swish, "Mish": _mish, "Selu": _selu, "Celu": _celu}
