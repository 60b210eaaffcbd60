"""graph -> plan for one target."""

from __future__ import annotations

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Graph
from runtime.lowering.assembly import assemble
from runtime.lowering.builder import Builder, Options, node_error
from runtime.lowering.operators import LOWERINGS
from runtime.lowering.placement import plan_concats
from runtime.plan.plan import Plan
from runtime.plan.records import MAX_RANK
from runtime.target import Target

__all__ = ["Options", "lower"]


def lower(graph: Graph, target: Target, options: Options | None = None) -> Plan:
    """Lowers a converted graph to a plan.

    Raises:
        UnsupportedError: an operator cannot run on the target; names the node and why.
    """
    return assemble(build(graph, target, options or Options()))


def build(graph: Graph, target: Target, options: Options) -> Builder:
    """Emits the launches of every node, in order."""
    _check_ranks(graph)
    builder = Builder(graph, target, options)
    if target.memory != "image":
        builder.plan_views(plan_concats(graph))
    for name in graph.inputs:
        builder.add_input(name)
    for node in graph.nodes:
        if node.op not in LOWERINGS:
            raise node_error(node, f"not supported on a device; supported: {', '.join(sorted(LOWERINGS))}")
        LOWERINGS[node.op](builder, node)
        if options.keep_layers and node.output not in graph.outputs:
            builder.output(node.output)
    for name in graph.outputs:
        builder.output(name)
    return builder


def _check_ranks(graph: Graph) -> None:
    if not graph.outputs:
        raise ModelError(f"model '{graph.name}' has no outputs")
    for name in (*graph.inputs, *graph.activations()):
        if len(graph.shape(name)) > MAX_RANK:
            raise UnsupportedError(f"tensor '{name}' has {len(graph.shape(name))} axes; up to {MAX_RANK} are supported")
