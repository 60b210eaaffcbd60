"""Lowers a graph to a plan for one target."""

import contextlib
import dataclasses
from collections.abc import Collection

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Graph, Node
from runtime.lowering.assembly import assemble_plan
from runtime.lowering.blocked_choice import choose_blocked
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.choice import GraphChoice, NodeChoice, Place
from runtime.lowering.large_weights import in_parts, too_large
from runtime.lowering.options import Options
from runtime.lowering.placement import BlockedNodes, place_runs, plan_concats
from runtime.lowering.quantized_choice import choose_quantized, fused_in_bytes
from runtime.lowering.tables import (
    BLOCKED_OPERATORS,
    IMAGE_LOWERINGS,
    LOWERINGS,
    ROW_JOINS,
    STRIDED_LOWERINGS,
    byte_operators,
)
from runtime.plan.plan import Plan
from runtime.plan.records import MAX_RANK
from runtime.semantics.generic_forms import generic_form
from runtime.target import Target
from runtime.types import Precision

__all__ = ["Options", "lower"]


def lower(graph: Graph, target: Target, options: Options | None = None) -> Plan:
    """Lowers a converted graph to a plan.

    Raises:
        UnsupportedError: an operator cannot run on the target; names the node and why.
    """
    return assemble_plan(emit_launches(graph, target, options or Options()))


def emit_launches(graph: Graph, target: Target, options: Options) -> Builder:
    """Emits the launches of every node, in order; in floats alone where a GPU lacks a kernel for what lies in bytes."""
    if target.moves_bytes and not options.choice:
        with contextlib.suppress(UnsupportedError):
            return _emit(graph, target, options, in_bytes=True)
    return _emit(graph, target, options, in_bytes=False)


def _emit(graph: Graph, target: Target, options: Options, in_bytes: bool) -> Builder:
    _check_ranks(graph)
    if options.choice:
        options.choice.check(graph)
        _check_precisions(options.choice, target)
    graph, choice = in_parts(fused_in_bytes(graph, target, options), target, options.choice)
    options = dataclasses.replace(options, choice=choice)
    builder, kept = Builder(graph, target, options), frozenset(options.keep).difference(graph.outputs)
    blocked = BlockedNodes()
    if target.memory == "cpu" and not choice:
        blocked = _choose_blocked(builder, kept)
    elif in_bytes:
        builder.byte_choice = choose_quantized(builder, options.keep)
    if target.memory != "cpu":
        builder.joined = frozenset(output for joins in ROW_JOINS for output in joins(builder, kept))
    _place(builder, blocked)
    nodes = builder.byte_choice.nodes
    joined = {*builder.joined, *(set(nodes.values()) - nodes.keys())}
    for node in graph.nodes:
        if node.output not in joined:
            _lower(builder, node, blocked)
            written = builder.byte_choice.nodes.get(node.output, node.output)
            if written in kept:
                builder.output(written)
    for name in graph.outputs:
        builder.output(name)
    return builder


def _choose_blocked(builder: Builder, kept: Collection[str]) -> BlockedNodes:
    """The nodes that a CPU has work on blocks of channels, in floats or bytes, and which of these take others along."""
    options = builder.options
    blocked = BlockedNodes(choose_blocked(builder.graph, builder.block), builder.block)
    if options.cpu.quantized and builder.target.cpu_quantized:
        builder.byte_choice = choose_quantized(builder, options.keep)
        blocked = BlockedNodes(blocked.outputs | builder.byte_choice.nodes.keys(), builder.block)
    builder.joined = _joined(builder, blocked.outputs, kept) | _rounded_by_readers(builder, blocked.outputs, kept)
    return blocked


def _rounded_by_readers(builder: Builder, blocked: Collection[str], kept: Collection[str]) -> frozenset[str]:
    """Outputs of what rounds an image of floats for nodes in bytes alone that round it as they read it."""
    graph, nodes, operators = builder.graph, builder.byte_choice.nodes, byte_operators(builder.target)
    free = (
        node
        for node in graph.nodes
        if node.op == "FakeQuantize" and node.output in nodes and node.inputs[0] not in blocked
    )

    def rounds(node: Node, image: str) -> bool:
        is_first = image not in node.inputs[1:] and node.output in nodes
        return is_first and operators[node.op].rounds_image(builder, node)

    return frozenset(
        node.output
        for node in free
        if node.output not in {*kept, *graph.outputs}
        and all(rounds(reader, node.output) for reader in graph.consumers(node.output))
    )


def _place(builder: Builder, blocked: BlockedNodes) -> None:
    """Says which tensors are parts of wider ones, and adds the inputs."""
    graph, choice = builder.graph, builder.options.choice
    if choice or builder.target.memory != "image":
        placed = plan_concats(graph, blocked, choice)
        builder.plan_views({name: place for name, place in placed.items() if _is_alike(builder, name, place[0])})
    builder.runs = place_runs(graph)
    for name in graph.inputs:
        builder.add_input(name)


def _lower(builder: Builder, node: Node, blocked: BlockedNodes) -> None:
    """Emits the launches of a node where it is to run."""
    target, choice = builder.target, builder.options.choice
    if choice:
        lower_chosen(builder, node, choice.of(node))
    elif node.output in builder.byte_choice.nodes:
        byte_operators(target)[node.op].lower(builder, node)
    elif node.output in blocked.outputs:
        BLOCKED_OPERATORS[node.op].lower(builder, node)
    elif target.allow_cpu and (reason := too_large(builder.graph, node, target)):
        lower_chosen(builder, node, NodeChoice(Place.CPU, precision=Precision.FP32), f"CPU: {reason}")
    else:
        _lower_node(builder, node)


def _joined(builder: Builder, blocked: Collection[str], kept: Collection[str]) -> frozenset[str]:
    """Outputs of blocked nodes in floats that the step of one behind them computes too."""
    graph, found = builder.graph, set[str]()
    blocked = frozenset(blocked) - builder.byte_choice.nodes.keys()
    free = set(blocked.difference(kept, graph.outputs))
    for node in graph.nodes:
        if node.output in blocked:
            inner = {each.output for each in BLOCKED_OPERATORS[node.op].joins(builder, node, free)}
            free -= {*inner, *([node.output] if inner else [])}
            found |= inner
    return frozenset(found)


def _is_alike(builder: Builder, part: str, whole: str) -> bool:
    """Whether a tensor and one that it is to be a part of are both stored in the same steps, or both in floats."""
    tensors = builder.graph.tensors
    is_same = not builder.in_bytes(part) or tensors[part].quantization == tensors[whole].quantization
    return builder.in_bytes(part) == builder.in_bytes(whole) and is_same


def _check_precisions(choice: GraphChoice, target: Target) -> None:
    """No node is less exact than the target's precision, by which a plan's outputs are judged."""
    if choice.precisions and max(choice.precisions) > target.precision:
        least, plan = (each.label for each in (max(choice.precisions), target.precision))
        raise ModelError(f"nodes were chosen to run in {least}, which is less exact than {plan}, the plan's precision")


def places(target: Target) -> tuple[Place, ...]:
    """Where nodes can run on a target."""
    if target.memory == "cpu":
        return (Place.CPU,)
    images = (Place.IMAGE,) if target.image2d_max_width else ()
    return (Place.BUFFER, *images, *((Place.CPU,) if target.allow_cpu else ()))


def lower_chosen(builder: Builder, node: Node, chosen: NodeChoice, note: str = "") -> None:
    """Emits the launches of a node where it was chosen to run, with the chosen algorithm and in the chosen precision.

    Raises:
        UnsupportedError: it cannot run so; names the node and why.
    """
    first = len(builder.launches)
    builder.chosen, builder.note = chosen, note
    try:
        with builder.in_precision(chosen.precision):
            _emit_chosen(builder, node, chosen)
    finally:
        builder.chosen = None
    emitted = {launch.kernel.operator for launch in builder.launches[first:]}
    if chosen.algorithm.tile and "WinogradTransform" not in emitted:
        raise node_error(node, f"was chosen to run as {chosen.algorithm}, which does not serve it")


def _emit_chosen(builder: Builder, node: Node, chosen: NodeChoice) -> None:
    if chosen.place not in places(builder.target):
        raise node_error(node, f"was chosen to run on {chosen.place}, which the target is not for")
    if chosen.place != Place.IMAGE:
        _lower_node(builder, node)
        return
    reason = "its tensors do not all have 4 axes"
    if _has_images(builder.graph, node):
        reason = IMAGE_LOWERINGS[node.op](builder, node) if node.op in IMAGE_LOWERINGS else "no kernel on images"
    if reason:
        raise node_error(node, f"was chosen to run on images: {reason}")


def _lower_node(builder: Builder, node: Node) -> None:
    if node.op in STRIDED_LOWERINGS:
        STRIDED_LOWERINGS[node.op](builder, node)
        return
    if node.op not in LOWERINGS:
        raise node_error(node, f"not supported on a device; supported: {', '.join(sorted(LOWERINGS))}")
    if not builder.chosen:
        builder.note = ""
    if builder.target.memory == "image" and not builder.chosen and _has_images(builder.graph, node):
        reason = IMAGE_LOWERINGS[node.op](builder, node) if node.op in IMAGE_LOWERINGS else "no kernel on images"
        if not reason:
            return
        builder.note = f"buffers: {reason}"
    try:
        LOWERINGS[node.op](builder, node)
    except UnsupportedError:
        if not _lower_generic_form(builder, node):
            raise


def _lower_generic_form(builder: Builder, node: Node) -> bool:
    """Lowers what its own kernel cannot serve, such as too many axes, in its generic form; False where it has none."""
    graph = builder.graph
    shapes = [graph.shape(name) for name in node.inputs if name]
    form = generic_form(node.op, shapes, graph.tensors[node.inputs[0]].dtype, node.attrs)
    if form is None or not builder.has_cpu:
        return False
    op, attributes = form
    STRIDED_LOWERINGS[op](builder, dataclasses.replace(node, op=op, attrs=attributes))
    return True


def _has_images(graph: Graph, node: Node) -> bool:
    """Whether the node works on 4-axis tensors."""
    return len(graph.shape(node.output)) == 4 and len(graph.shape(node.inputs[0])) == 4


def _check_ranks(graph: Graph) -> None:
    if not graph.outputs:
        raise ModelError(f"model '{graph.name}' has no outputs")
    for name in (*graph.inputs, *graph.outputs):
        if len(graph.shape(name)) > MAX_RANK:
            raise UnsupportedError(f"tensor '{name}' has {len(graph.shape(name))} axes; up to {MAX_RANK} are supported")
