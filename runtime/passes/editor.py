"""Edits a graph during one pass, with an index of producers and readers that every change keeps up to date."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from runtime.graph import Array, Graph, Node, TensorInfo, unused_name
from runtime.operators.activations import ACTIVATION_ATTRIBUTES
from runtime.operators.table import infer_shape, input_shapes


class GraphEditor:
    """A graph and an index of which node writes and which nodes read each tensor.

    Added and removed nodes reach the graph's list of nodes with `finish`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._producers = {name: node for node in graph.nodes for name in node.outputs}
        self._readers: defaultdict[str, list[Node]] = defaultdict(list)
        self._before: dict[int, list[Node]] = {}
        self._gone: set[int] = set()
        for node in graph.nodes:
            self._register(node)

    def nodes(self, *ops: str) -> Iterator[Node]:
        """The nodes of these operators (all where none is given) that are still there, in order."""
        for node in list(self.graph.nodes):
            if id(node) not in self._gone and (not ops or node.op in ops):
                yield node

    def producer(self, tensor: str, *ops: str) -> Node | None:
        """The node that writes a tensor, if it is one of these operators."""
        node = self._producers.get(tensor)
        return node if node is not None and (not ops or node.op in ops) else None

    def readers(self, tensor: str) -> list[Node]:
        """The nodes that read a tensor; one that reads it twice stands there twice."""
        return self._readers[tensor]

    def private(self, tensor: str) -> bool:
        """Whether exactly one node reads the tensor, once, and it is no output of the graph."""
        return len(self._readers[tensor]) == 1 and tensor not in self.graph.outputs

    def sole_producer(self, tensor: str, *ops: str) -> Node | None:
        """Returns the node, if it is one of these operators, that writes a private tensor; else None.

        Such a node may be changed together with its reader, since nobody else sees its output.
        """
        return self.producer(tensor, *ops) if self.private(tensor) else None

    def scalar(self, tensor: str) -> float | None:
        """Value of a constant of one element; None for any other tensor."""
        value = self.graph.constants.get(tensor)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def add_constant(self, name: str, value: Array) -> str:
        """Adds a float32 constant."""
        return self.graph.add_constant(name, np.ascontiguousarray(value, np.float32))

    def set_inputs(self, node: Node, inputs: list[str]) -> None:
        """Makes a node read other tensors; absent inputs at the end are left out."""
        for name in filter(None, node.inputs):
            self._readers[name].remove(node)
        node.inputs = list(inputs)
        while node.inputs and not node.inputs[-1]:
            node.inputs.pop()
        self._register(node)

    def rewrite(self, node: Node, op: str, inputs: list[str], attributes: Mapping[str, Any]) -> None:
        """Turns a node into another operator that writes the same tensor.

        A constant of one element may have more axes than what it is joined with, and gives them to the result: where
        the operator reads no such constant any more, a Reshape does.
        """
        shape = self.graph.shape(node.output)
        if infer_shape(op, [self.graph.shape(name) if name else () for name in inputs], attributes) != shape:
            made = self.insert_before(node, op, node.name, inputs, attributes)
            op, inputs, attributes, node.name = "Reshape", [made], {"shape": shape}, f"{node.name}/reshape"
        node.op, node.attrs = op, dict(attributes)
        self.set_inputs(node, inputs)

    def absorb(self, node: Node, producer: Node) -> None:
        """Puts a producer in the place of its only reader, whose output and activation it takes over."""
        activation = {}
        if "activation" in node.attrs:
            activation = {name: value for name, value in node.attrs.items() if name in ACTIVATION_ATTRIBUTES}
        node.name = producer.name
        self.rewrite(node, producer.op, producer.inputs, {**producer.attrs, **activation})
        self.drop(producer)

    def insert_before(self, node: Node, op: str, name: str, inputs: list[str], attributes: Mapping[str, Any]) -> str:
        """Adds a node in front of another; returns the name of its output."""
        output = unused_name(f"{name}/{op}", self.graph.tensors)
        added = Node(op, name, inputs, [output], dict(attributes))
        self._before.setdefault(id(node), []).append(added)
        self._producers[output] = added
        self._register(added)
        self.graph.tensors[output] = TensorInfo(infer_shape(op, input_shapes(self.graph, added), attributes))
        return output

    def drop(self, node: Node) -> None:
        """Removes a node."""
        self.set_inputs(node, [])
        self._gone.add(id(node))
        if self._producers.get(node.output) is node:
            del self._producers[node.output]

    def bypass(self, node: Node) -> bool:
        """Removes a node whose output equals its first input.

        Returns False, and changes nothing, where an output of the graph would lose its name.
        """
        source, removed = node.inputs[0], node.output
        if removed in self.graph.outputs:
            writer = self._producers.get(source)
            if writer is None or source in self.graph.outputs:
                return False
            source, removed = removed, source
            self._producers[source] = writer
            writer.outputs = [source]
        self.drop(node)
        for reader in list(self._readers[removed]):
            self.set_inputs(reader, [source if name == removed else name for name in reader.inputs])
        return True

    def finish(self) -> None:
        """Writes the changes to the graph's list of nodes, and drops the tensors that nothing names any more."""
        nodes = [part for node in self.graph.nodes for part in (*self._before.get(id(node), ()), node)]
        self.graph.nodes = [node for node in nodes if id(node) not in self._gone]
        named = {*self.graph.inputs, *self.graph.outputs}
        for node in self.graph.nodes:
            named.update(node.inputs, node.outputs)
        self.graph.tensors = {name: info for name, info in self.graph.tensors.items() if name in named}
        self.graph.constants = {name: value for name, value in self.graph.constants.items() if name in named}

    def _register(self, node: Node) -> None:
        for name in filter(None, node.inputs):
            self._readers[name].append(node)


def pass_over(*ops: str) -> Callable[[Callable[[GraphEditor, Node], str]], Callable[[Graph], list[str]]]:
    """Makes a pass of what is done with one node: with those of these operators (all where none is given), in order.

    What is decorated says what it did, empty where it left the node as it was; the pass returns all that was done.
    """

    def decorate(rewrite: Callable[[GraphEditor, Node], str]) -> Callable[[Graph], list[str]]:
        @functools.wraps(rewrite)
        def run(graph: Graph) -> list[str]:
            editor = GraphEditor(graph)
            changes = [rewrite(editor, node) for node in editor.nodes(*ops)]
            editor.finish()
            return [change for change in changes if change]

        return run

    return decorate
