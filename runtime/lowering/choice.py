"""The choice that a plan is lowered by: for each node where it runs, with which algorithm and in which precision.

`runtime.selection` finds one; it is kept as JSON, and refused for another graph or by another version.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.errors import FormatError, ModelError
from runtime.graph import Graph, Node
from runtime.types import PRECISIONS, Algorithm, ElementType, Precision

VERSION = 2
READABLE = (1, VERSION)  # 1 knows no precision of nodes; all else is the same
KIND = "farm graph choice"


class Place(enum.StrEnum):
    """Where a node runs: on the GPU with buffers or images, or on the CPU."""

    BUFFER = "buffer"
    IMAGE = "image"
    CPU = "cpu"


@dataclasses.dataclass(frozen=True)
class NodeChoice:
    """Where a node runs, with which algorithm, and in which precision; None: that of the plan."""

    place: Place
    algorithm: Algorithm = Algorithm.DIRECT
    precision: Precision | None = None

    def __str__(self) -> str:
        precision = "" if self.precision is None else self.precision.label
        algorithm = "" if self.algorithm == Algorithm.DIRECT else self.algorithm
        return " ".join(filter(None, (self.place, algorithm, precision)))

    def joins(self, part: NodeChoice) -> bool:
        """Whether a Concat that runs so takes what a node wrote as `part` says as a part of its own memory."""
        return self.place == Place.BUFFER and self.element == part.element

    @property
    def element(self) -> ElementType | None:
        """Type of floats in memory; None: that of the plan."""
        return None if self.precision is None else self.precision.element


@dataclasses.dataclass(frozen=True)
class GraphChoice:
    """A choice for every node of one graph.

    `nodes`: name of the node's output -> its choice. `graph`: hash of the graph (`graph_hash`).
    """

    nodes: Mapping[str, NodeChoice]
    graph: str

    def __hash__(self) -> int:
        return hash((self.graph, frozenset(self.nodes.items())))

    def of(self, node: Node) -> NodeChoice:
        """The choice for a node of the graph."""
        return self.nodes[node.output]

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The precisions that nodes were chosen to have, in order; none where all have the plan's."""
        return tuple(sorted({each.precision for each in self.nodes.values() if each.precision is not None}))

    def check(self, graph: Graph) -> None:
        """Raises ModelError where the choice is for another graph."""
        if self.graph != graph_hash(graph) or {node.output for node in graph.nodes} != set(self.nodes):
            raise ModelError(f"model '{graph.name}': the choice is for another graph; make it anew with `farm tune`")

    def to_json(self) -> str:
        """The choice as text."""
        nodes = {name: _entry(chosen) for name, chosen in self.nodes.items()}
        return json.dumps({"kind": KIND, "version": VERSION, "graph": self.graph, "nodes": nodes}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "choice") -> GraphChoice:
        """Reads what `to_json` wrote; FormatError, which names `source`, for anything else."""
        try:
            told = json.loads(text)
        except ValueError as error:
            raise FormatError(f"{source}: damaged, no JSON ({error}); make it anew with `farm tune`") from None
        if not isinstance(told, dict) or told.get("kind") != KIND:
            raise FormatError(f"{source}: not a '{KIND}'; make it anew with `farm tune`")
        if told.get("version") not in READABLE:
            readable = " and ".join(map(str, READABLE))
            raise FormatError(f"{source}: version {told.get('version')}, this farm reads {readable}; tune again")
        try:
            nodes = {str(name): _node_choice(entry) for name, entry in told["nodes"].items()}
            return cls(nodes, _text(told["graph"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"{source}: damaged ({error}); make it anew with `farm tune`") from None


def _entry(chosen: NodeChoice) -> list[str]:
    precision = [] if chosen.precision is None else [chosen.precision.label]
    return [chosen.place, chosen.algorithm, *precision]


def _node_choice(entry: Any) -> NodeChoice:
    place, algorithm, *precisions = entry
    if len(precisions) > 1:
        raise ValueError(f"a node is chosen to run as {entry}")
    return NodeChoice(Place(place), Algorithm(algorithm), *(PRECISIONS[each] for each in precisions))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the graph's hash is {value!r}")
    return value


def graph_choice(graph: Graph, nodes: Mapping[str, NodeChoice]) -> GraphChoice:
    """The choice for a graph that says this of its nodes, by their outputs."""
    return GraphChoice(dict(nodes), graph_hash(graph))


def graph_hash(graph: Graph) -> str:
    """Hash of what the lowering depends on: operators, attributes, names, shapes and types, not the weights' values."""
    digest = hashlib.sha256()
    for node in graph.nodes:
        digest.update(repr((node.op, node.inputs, node.outputs, described(node.attrs))).encode())
    for name in sorted(graph.tensors):
        info = graph.tensors[name]
        digest.update(repr((name, info.shape, info.dtype.name, graph.is_constant(name))).encode())
    digest.update(repr((graph.inputs, graph.outputs)).encode())
    return digest.hexdigest()[:32]


def described(value: Any) -> Any:
    """An attribute as a value whose `repr` tells all of it and nothing else, whatever the order of its keys."""
    if isinstance(value, Mapping):
        return tuple((key, described(value[key])) for key in sorted(value))
    if isinstance(value, (list, tuple)):
        return tuple(described(each) for each in value)
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.name, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
    return value.item() if isinstance(value, np.generic) else value
