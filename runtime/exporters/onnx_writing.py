"""Writes nodes of a graph as nodes of ONNX: what a family needs to say how its operators are written (`WRITERS`)."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from runtime.graph import Array, Graph, Node

OPSET = 17


class OnnxWriting:
    """The graph that is written, and its initializers, some of which stand for attributes of the graph."""

    def __init__(self, graph: Graph, outside: Collection[str] = ()) -> None:
        """All constants are initializers of the model, but those that lie `outside`."""
        self.graph = graph
        inside = (name for name in graph.constants if name not in outside)
        self.initializers = [numpy_helper.from_array(graph.constants[name], name) for name in inside]
        self._names = set(graph.tensors)

    def constant(self, node: Node, what: str, value: Array) -> str:
        """Adds an initializer for something that the graph holds as an attribute; returns its name."""
        name = f"{node.output}/{what}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def integers(self, node: Node, what: str) -> str:
        """Adds an initializer for an attribute that is a list of integers."""
        return self.constant(node, what, np.asarray(node.attrs[what], np.int64))

    def plain(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
        """Makes a node of ONNX's own operators that writes what the graph's node writes."""
        return helper.make_node(op, inputs, node.outputs, node.name, **attributes)


# Writes a node in ONNX's operators; None where the project's own domain has to.
Writer = Callable[[OnnxWriting, Node], onnx.NodeProto | None]


def write_same(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    """Writes an operator whose name and attributes are the same in ONNX."""
    return writing.plain(node, node.op, node.inputs, **node.attrs)
