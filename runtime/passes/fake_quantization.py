"""Fake quantisation: what quantises and dequantises becomes an activation, so that its neighbours stay in floats.

What an activation cannot say (16 bits, numbers along an axis) rounds in floats: Div, Round, Clip, Mul.

A model with QuantizeLinear and DequantizeLinear around its operators means just that. Its weights are dequantised when
constants are folded.
"""

import dataclasses
import math

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.semantics.quantization import EIGHT_BITS, Quantization

Limits = tuple[float, float]

# They move elements, or choose some; all that a Concat joins.
_CARRIERS = ("Concat", "MaxPool", "ReduceMax", "Reshape", "Slice", "Transpose")
_CLAMPS = ("Clip", "Relu")
_JOINED = (*EIGHT_BITS, "int16", "uint16")  # floats count so far exactly


def join_quantizations(graph: Graph) -> list[str]:
    """Pairs of QuantizeLinear and DequantizeLinear become FakeQuantize, or steps in floats; not those of 32 bits."""
    editor = GraphEditor(graph)
    changes, joined = [], dict[str, str]()
    for node in editor.nodes("DequantizeLinear"):
        quantize = editor.producer(node.inputs[0], "QuantizeLinear")
        if quantize is None or graph.tensors[quantize.inputs[0]].dtype != np.float32:
            continue
        before, after = (graph.tensors[each.output].quantization for each in (quantize, node))
        if before is None or before != after or before.integers not in _JOINED:
            continue
        if quantize.output in joined:
            editor.rewrite(node, "Identity", [joined[quantize.output]], {})
        elif before.is_whole and before.integers in EIGHT_BITS:
            low, high = limits_of(before)
            editor.rewrite(node, "FakeQuantize", quantize.inputs[:1], {"alpha": low, "beta": high})
        else:
            _round_in_floats(editor, node, quantize.inputs[0], before)
        joined.setdefault(quantize.output, node.output)
        changes.append(f"{quantize.name} with {node.name}")
        if not editor.readers(quantize.output) and quantize.output not in graph.outputs:
            editor.drop(quantize)
    changes += _rounded_before(editor)
    editor.finish()
    return changes


def _rounded_before(editor: GraphEditor) -> list[str]:
    """What a source that rounds by fixed point has integers of in the end is rounded by an activation before that."""
    changes = []
    for node in editor.nodes("QuantizeLinear"):
        known, source = editor.graph.tensors[node.output].quantization, editor.graph.tensors[node.inputs[0]]
        is_eight_bits = known is not None and known.is_whole and known.integers in EIGHT_BITS
        if known is None or not known.fixed_point or not is_eight_bits or source.dtype != np.float32:
            continue
        if source.quantization is None:
            low, high = limits_of(known)
            limits = {"alpha": low, "beta": high}
            rounded = editor.insert_before(node, "FakeQuantize", node.name, node.inputs[:1], limits)
            info = editor.graph.tensors[rounded]
            editor.graph.tensors[rounded] = dataclasses.replace(info, quantization=known)
            editor.set_inputs(node, [rounded, *node.inputs[1:]])
            changes.append(f"what {node.name} reads")
    return changes


def _round_in_floats(editor: GraphEditor, node: Node, x: str, known: Quantization) -> None:
    """Makes of a DequantizeLinear x / scale, rounded, between the limits less the zero point, times scale."""
    behind = 0 if known.axis is None else len(editor.graph.shape(x)) - known.axis - 1
    shape, info = () if known.is_whole else (-1, *(1,) * behind), np.iinfo(known.integers)
    scale, zero = np.reshape(known.scale, shape), np.reshape(known.zero_point, shape)

    def constant(what: str, value: Array) -> str:
        return editor.add_constant(f"{node.name}/{what}", value)

    def add(op: str, *inputs: str, **attributes: float) -> str:
        return editor.insert_before(node, op, f"{node.name}/{op}", list(inputs), attributes)

    steps = add("Round", add("Div", x, by := constant("scale", scale)))
    low, high = info.min - zero, info.max - zero
    if np.ptp(zero) == 0:
        limited = add("Clip", steps, alpha=float(low.flat[0]), beta=float(high.flat[0]))
    else:
        limited = add("Min", add("Max", steps, constant("lowest", low)), constant("highest", high))
    editor.rewrite(node, "Mul", [limited, by], {})


def limits_of(quantization: Quantization) -> Limits:
    """The least and the greatest value that the integers of a whole tensor stand for."""
    (scale,), (zero,), info = quantization.scale, quantization.zero_point, np.iinfo(quantization.integers)
    return (int(info.min) - zero) * scale, (int(info.max) - zero) * scale


@pass_over("FakeQuantize")
def remove_needless_quantizations(editor: GraphEditor, node: Node) -> str:
    """Removes FakeQuantize of what holds such values already, and what clamps no closer than it does itself."""
    limits = node.attrs["alpha"], node.attrs["beta"]
    clamp = editor.producer(node.inputs[0], *_CLAMPS)
    if _is_quantized(editor, node.inputs[0], limits) and editor.bypass(node):
        return node.name
    if clamp is None or not _is_wider(clamp, limits):
        return ""
    editor.set_inputs(node, clamp.inputs)
    return f"{clamp.name} before {node.name}"


@pass_over("FakeQuantize")
def round_before_reshapes(editor: GraphEditor, node: Node) -> str:
    """Rounds what a Reshape reads instead of what it writes, so that who computes it rounds it, too."""
    tensors, reshape = editor.graph.tensors, editor.sole_producer(node.inputs[0], "Reshape")
    if reshape is None:
        return ""
    known = tensors[node.output].quantization
    rounded = editor.insert_before(reshape, node.op, node.name, reshape.inputs, node.attrs)
    tensors[rounded] = dataclasses.replace(tensors[rounded], quantization=known)
    node.name = reshape.name
    editor.rewrite(node, "Reshape", [rounded], reshape.attrs)
    editor.drop(reshape)
    return rounded


def _is_quantized(editor: GraphEditor, tensor: str, limits: Limits) -> bool:
    """Whether a tensor holds values that FakeQuantize with these limits does not change."""
    pending, seen = [tensor], set[str]()
    while pending:
        name = pending.pop()
        node = editor.producer(name)
        if node is None or (not _carries(node) and fake_limits(node) != limits):
            return False
        if _carries(node) and name not in seen:
            pending += node.inputs
        seen.add(name)
    return True


def _carries(node: Node) -> bool:
    return node.op in _CARRIERS or (node.op == "Resize" and node.attrs["mode"] == "nearest")


def fake_limits(node: Node) -> Limits | None:
    """The limits of a node that rounds its result to steps of eight bits; None of any other."""
    if node.op == "FakeQuantize" or node.attrs.get("activation") == "fake_quantize":
        return node.attrs["alpha"], node.attrs["beta"]
    return None


def step_of(limits: Limits) -> float:
    """The step of eight bits between limits."""
    return (limits[1] - limits[0]) / 255


def _is_wider(clamp: Node, limits: Limits) -> bool:
    """Whether a clamp changes nothing that limits do not change to the same: its bounds may lie half a step within."""
    least, most = (0.0, math.inf) if clamp.op == "Relu" else (clamp.attrs["alpha"], clamp.attrs["beta"])
    less_than_half = 0.49 * step_of(limits)
    return least <= limits[0] + less_than_half and most >= limits[1] - less_than_half
