"""Which operators of a quantised model compute in eight bits on a CPU, by measured times: a minimum cut.

Operators on either side of the cut take their own time; what lies between the sides takes a conversion, once for all
who read it so. A product in bytes may write floats, where a function of bytes writes bytes: its result is a vertex of
its own. Both sides round to the same steps, and so have the same results.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping

from runtime.graph import Graph, Node
from runtime.lowering.minimum_cut import UNLIMITED, near_sides
from runtime.lowering.tables import QUANTIZED_OPERATORS
from runtime.lowering.value import InBytes

_BYTES, _FLOATS = 0, 1  # source and sink
_UNITS = 2**26  # into which all times together are divided, so that sums of capacities fit 31 bits


@dataclasses.dataclass(frozen=True)
class OperatorTimes:
    """Times of one model, in ns.

    Attributes:
        in_bytes, in_floats: of the node that writes a tensor, in plans that are so throughout as far as they can be;
            with what rounds its result.
        per_element: what an element takes from floats into bytes, and from bytes into floats.
    """

    in_bytes: Mapping[str, float]
    in_floats: Mapping[str, float]
    per_element: tuple[float, float]


def floats_of_least_time(graph: Graph, choice: InBytes, times: OperatorTimes) -> frozenset[str]:
    """Outputs of nodes that can compute in eight bits and are to compute in floats.

    `choice`: what computes in eight bits where all do that can. Nodes without a time stay there.
    """
    network = _Network(graph, choice, times)
    _, near_floats = near_sides(*network.scaled(), _BYTES, _FLOATS)
    return frozenset(name for name, vertex in network.nodes.items() if vertex in near_floats)


class _Network:
    """Vertices: both sides, each node that can compute in bytes, and what a product writes."""

    def __init__(self, graph: Graph, choice: InBytes, times: OperatorTimes) -> None:
        self._graph, self._choice, self._times = graph, choice, times
        self._edges: dict[tuple[int, int], float] = {}
        self.count = 2
        self.nodes = {name: self._vertex() for name in choice.nodes}
        self._tensors = dict(self._written())
        for name in choice.nodes:
            self._compute(name)
        for name, readers in self._read().items():
            self._convert(name, readers)

    def scaled(self) -> tuple[dict[tuple[int, int], int], int]:
        """Whole capacities, and the number of vertices."""
        finite = [size for size in self._edges.values() if math.isfinite(size)]
        unit = sum(finite) / _UNITS or 1.0
        sizes = {
            pair: round(size / unit) if math.isfinite(size) else UNLIMITED // 4 for pair, size in self._edges.items()
        }
        return sizes, self.count

    def _vertex(self) -> int:
        self.count += 1
        return self.count - 1

    def _written(self) -> Iterator[tuple[str, int]]:
        """What stands for a tensor that a node of the choice writes."""
        for node in self._nodes():
            result = self._choice.nodes[node.output]
            yield result, self.nodes[node.output] if QUANTIZED_OPERATORS[node.op].rounds else self._vertex()

    def _nodes(self) -> Iterator[Node]:
        return (node for node in self._graph.nodes if node.output in self._choice.nodes)

    def _add(self, start: int, end: int, size: float) -> None:
        self._edges[start, end] = self._edges.get((start, end), 0.0) + size

    def _compute(self, name: str) -> None:
        """A node in floats is cut off from the side of bytes, and the other way round."""
        vertex, result = self.nodes[name], self._tensors[self._choice.nodes[name]]
        self._add(_BYTES, vertex, self._times.in_floats.get(name, math.inf))
        self._add(vertex, _FLOATS, self._times.in_bytes.get(name, 0.0))
        if result != vertex:  # in bytes, if it is made so or brought there
            is_stored = self._choice.nodes[name] in self._choice.tensors
            size = self._graph.tensors[self._choice.nodes[name]].size
            self._add(result, vertex, self._times.per_element[0] * size)
            if not is_stored:
                self._add(result, _FLOATS, math.inf)

    def _read(self) -> dict[str, set[int]]:
        """The readers of each tensor that some node reads in bytes or writes so."""
        joined = set(self._choice.nodes.values()) - self._choice.nodes.keys()
        found: dict[str, set[int]] = {name: {_FLOATS} for name in self._graph.outputs if name in self._tensors}
        for node in self._graph.nodes:
            operator, vertex = QUANTIZED_OPERATORS.get(node.op), self.nodes.get(node.output, _FLOATS)
            if node.output in joined:
                continue
            for index, name in enumerate(node.inputs):
                if not name or self._graph.is_constant(name):
                    continue
                in_bytes = operator is not None and (operator.inputs is None or index < operator.inputs)
                reads_floats = node.op == "FakeQuantize" and name not in self._tensors  # it is itself the conversion
                if not reads_floats and (name in self._tensors or vertex != _FLOATS):
                    found.setdefault(name, set()).add(vertex if in_bytes else _FLOATS)
        return found

    def _convert(self, name: str, readers: Collection[int]) -> None:
        """Each way once: where it lies on one side, and some reader on the other."""
        home, size = self._tensors.get(name, _FLOATS), self._graph.tensors[name].size
        into, out_of = self._vertex(), self._vertex()
        into_ns, out_of_ns = self._times.per_element
        self._add(into, home, into_ns * size)
        self._add(home, out_of, out_of_ns * size)
        for reader in readers:
            self._add(reader, into, math.inf)
            self._add(out_of, reader, math.inf)
