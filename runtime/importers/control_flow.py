"""Nodes with inner graphs, unrolled at conversion: If as the branch that is taken, Loop and Scan as their turns.

Nodes are given one after another, so that what a turn computes of constants alone, such as the condition of the next
one, is known by then.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import NodeProto, helper

from runtime.errors import ModelError, UnsupportedError
from runtime.importers.builder import GraphBuilder
from runtime.importers.functions import instantiated
from runtime.importers.onnx_node import OnnxNode, normalized_axis, subgraph
from runtime.importers.tensors import constant_tensors, tensor_value


def chosen_branch(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> list[NodeProto]:
    """The nodes of the branch, its constants added; UnsupportedError where the condition is computed at run time."""
    condition = builder.require_constant(node, 0, "the condition")
    wanted = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    branch = subgraph(proto, node, wanted)
    prefix = f"{node.name}/"
    names = with_constants(branch, prefix, builder)
    inner = instantiated(branch.node, names, prefix, builder.fresh)
    copies = [
        helper.make_node("Identity", [names.get(value.name, value.name)], [output], f"{prefix}{output}")
        for value, output in zip(branch.output, proto.output, strict=True)
    ]
    return [*inner, *copies]


def with_constants(branch: onnx.GraphProto, prefix: str, builder: GraphBuilder) -> dict[str, str]:
    """Adds the initializers of a branch, or of a loop's body, under names of their own; maps the old names to these."""
    return {
        name: builder.derived(f"{prefix}{name}", tensor_value(tensor, name))
        for name, tensor in constant_tensors(branch).items()
    }


MAX_TURNS = 1024  # of one loop
MAX_NODES = 20_000  # of the graph, what was folded included

EXPLICIT_AXES = 13  # opset since which Unsqueeze has its axes as an input


class Unrolling:
    """The turns of one node; `turn` gives the nodes of one, whose results `results` has then."""

    def __init__(self, proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> None:
        self.node, self.builder, self._proto = node, builder, proto
        self.body = subgraph(proto, node, "body")
        self.results: list[str] = []
        self._made = 0

    def turn(self, inputs: Sequence[str]) -> Iterator[NodeProto]:
        """The body's nodes for these tensors in place of its inputs."""
        if self._made == MAX_TURNS:
            raise UnsupportedError(f"{self.node}: more than {MAX_TURNS} turns")
        if len(self.builder.graph.nodes) + len(self.builder.folded) > MAX_NODES:
            raise UnsupportedError(f"{self.node}: its turns need more than {MAX_NODES} nodes")
        if len(inputs) != len(self.body.input):
            raise ModelError(f"{self.node}: its body has {len(self.body.input)} inputs, not {len(inputs)}")
        prefix = f"{self.node.name}/{self._made}/"
        self._made += 1
        names = with_constants(self.body, prefix, self.builder)
        names |= {value.name: name for value, name in zip(self.body.input, inputs, strict=True)}
        yield from instantiated(self.body.node, names, prefix, self.builder.fresh)
        self.results = [names.get(value.name, value.name) for value in self.body.output]

    def constant(self, value: int, dtype: str = "int64") -> str:
        """A constant number, as a tensor's name."""
        return self.builder.derived(f"{self.node.name}/constant", np.asarray(value, dtype))

    def finished(
        self, values: Sequence[str], scans: Sequence[Sequence[str]], axes: Sequence[int]
    ) -> Iterator[NodeProto]:
        """Writes the outputs: the last values, and for each scan what all turns gave, joined along a new axis."""
        outputs = list(self._proto.output)
        if len(outputs) > len(values) + len(scans):
            raise ModelError(f"{self.node}: {len(outputs)} outputs; its body has {len(values) + len(scans)}")
        for value, output in zip(values, outputs, strict=False):
            if output:
                yield helper.make_node("Identity", [value], [output], f"{output}/value")
        for parts, axis, output in zip(scans, axes, outputs[len(values) :], strict=False):
            if output:
                yield from self._joined(parts, axis, output)

    def _joined(self, parts: Sequence[str], axis: int, output: str) -> Iterator[NodeProto]:
        if not parts:
            raise UnsupportedError(f"{self.node}: no turns, so that '{output}' has no elements")
        wide = [self.builder.fresh(f"{output}/turn{index}") for index in range(len(parts))]
        for part, name in zip(parts, wide, strict=True):
            if self.node.opset >= EXPLICIT_AXES:
                axes = self.builder.derived(f"{name}/axes", np.asarray([axis]))
                yield helper.make_node("Unsqueeze", [part, axes], [name], name)
            else:
                yield helper.make_node("Unsqueeze", [part], [name], name, axes=[axis])
        yield helper.make_node("Concat", wide, [output], f"{output}/joined", axis=axis)


def unrolled_loop(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> Iterator[NodeProto]:
    """The nodes of a Loop; UnsupportedError where a run decides how many turns there are."""
    unrolling = Unrolling(proto, node, builder)
    most = int(builder.scalar(node, 0, "the trip count")) if node.optional(0) else MAX_TURNS + 1
    values, scans = list(proto.input[2:]), _scans(unrolling.body, len(proto.input) - 2 + 1)
    goes_on = not node.optional(1) or bool(builder.scalar(node, 1, "the condition"))
    made = 0
    while goes_on and made < most:
        yield from unrolling.turn([unrolling.constant(made), unrolling.constant(True, "bool"), *values])
        made += 1
        condition, *rest = unrolling.results
        values = rest[: len(values)]
        for scan, result in zip(scans, rest[len(values) :], strict=False):
            scan.append(result)
        known = builder.constant(condition)
        if known is None:
            raise UnsupportedError(
                f"{node}: its condition '{condition}' is computed at run time; supported: a constant"
            )
        goes_on = bool(known.reshape(-1)[0])
    yield from unrolling.finished(values, scans, [0] * len(scans))


def _scans(body: onnx.GraphProto, others: int) -> list[list[str]]:
    """What the turns give for each scanned output: nothing yet."""
    return [[] for _ in range(len(body.output) - others)]


def unrolled_scan(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> Iterator[NodeProto]:
    """The nodes of a Scan, whose turns are the elements of an axis."""
    if node.opset < 9:
        raise node.unsupported("opset", node.opset, "9 and later")
    unrolling, count = Unrolling(proto, node, builder), node.integer("num_scan_inputs", 0)
    if not 1 <= count <= len(proto.input):
        raise ModelError(f"{node}: num_scan_inputs is {count} of {len(proto.input)} inputs")
    split = len(proto.input) - count
    values, sequences = list(proto.input[:split]), proto.input[split:]
    scans = _scans(unrolling.body, split)
    axes = [
        normalized_axis(node, axis, len(builder.shape(name)))
        for axis, name in zip(node.integers("scan_input_axes", (0,) * count), node.inputs[split:], strict=True)
    ]
    lengths = {builder.shape(name)[axis] for axis, name in zip(axes, node.inputs[split:], strict=True)}
    if len(lengths) != 1:
        raise ModelError(f"{node}: its sequences have {' and '.join(map(str, sorted(lengths)))} elements")
    (length,) = lengths
    backwards = node.integers("scan_input_directions", (0,) * count)
    for turn in range(length):
        taken = [unrolling.constant(length - 1 - turn if back else turn) for back in backwards]
        parts = [builder.fresh(f"{node.name}/{turn}/part{index}") for index in range(count)]
        for name, at, axis, part in zip(sequences, taken, axes, parts, strict=True):
            yield helper.make_node("Gather", [name, at], [part], part, axis=axis)
        yield from unrolling.turn([*values, *parts])
        values = unrolling.results[:split]
        for scan, result in zip(scans, unrolling.results[split:], strict=True):
            scan.append(result)
    for scan, back in zip(scans, node.integers("scan_output_directions", (0,) * len(scans)), strict=True):
        if back:
            scan.reverse()
    yield from unrolling.finished(values, scans, node.integers("scan_output_axes", (0,) * len(scans)))
