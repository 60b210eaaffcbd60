"""Fake quantisation: what quantises and dequantises becomes an activation, so that its neighbours stay in floats.

What an activation cannot say (numbers along an axis) rounds in floats: Div, Round, Clip, Mul.

A model with QuantizeLinear and DequantizeLinear around its operators means just that. Its weights are dequantised when
constants are folded.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.semantics.quantization import EIGHT_BITS, EXACT_IN_FLOATS, Quantization
from runtime.semantics.unary import snake

FAKE_QUANTIZATIONS = {"FakeQuantize": 255, "FakeQuantize16": 65535}  # and as many steps
_OF_ACTIVATIONS = {snake(op): op for op in FAKE_QUANTIZATIONS}


class FakeSteps(NamedTuple):
    """Whole steps from the least value to the greatest."""

    low: float
    high: float
    number: int

    @property
    def size(self) -> float:
        """How far one leads."""
        return (self.high - self.low) / self.number

    @property
    def limits(self) -> dict[str, float]:
        """The attributes of an operator that rounds to them."""
        return {"alpha": self.low, "beta": self.high}


# They move elements, or choose some; all that a Concat joins.
_CARRIERS = ("Concat", "MaxPool", "ReduceMax", "Reshape", "Slice", "Transpose")
_CLAMPS = ("Clip", "Relu")


def join_quantizations(graph: Graph) -> list[str]:
    """Pairs of QuantizeLinear and DequantizeLinear become FakeQuantize, or steps in floats; not those of 32 bits.

    Their scale and zero point are constants, or of eight bits and found as the model runs (DynamicQuantizeLinear).
    """
    editor = GraphEditor(graph)
    changes, joined = [], dict[str, str]()
    for node in editor.nodes("DequantizeLinear"):
        quantize = editor.producer(node.inputs[0], "QuantizeLinear")
        if quantize is None or graph.tensors[quantize.inputs[0]].dtype != np.float32:
            continue
        if _has_found_numbers(editor, quantize, node):
            _round_by_found(editor, node, quantize)
            changes.append(f"{quantize.name} with {node.name}")
            continue
        before, after = (graph.tensors[each.output].quantization for each in (quantize, node))
        if before is None or before != after or before.integers not in EXACT_IN_FLOATS:
            continue
        if quantize.output in joined:
            editor.rewrite(node, "Identity", [joined[quantize.output]], {})
        elif before.is_whole:
            op = "FakeQuantize" if before.integers in EIGHT_BITS else "FakeQuantize16"
            editor.rewrite(node, op, quantize.inputs[:1], _steps_of(before).limits)
        else:
            _round_in_floats(editor, node, quantize.inputs[0], before)
        joined.setdefault(quantize.output, node.output)
        changes.append(f"{quantize.name} with {node.name}")
        if not editor.readers(quantize.output) and quantize.output not in graph.outputs:
            editor.drop(quantize)
    changes += _rounded_before(editor)
    editor.finish()
    return changes


def _has_found_numbers(editor: GraphEditor, quantize: Node, dequantize: Node) -> bool:
    """Whether both read one scale and one zero point of eight bits that the model finds as it runs."""
    if len(quantize.inputs) < 3 or len(dequantize.inputs) < 3:
        return False
    pairs = [tuple(_scalar_of(editor, each.inputs[at]) for each in (quantize, dequantize)) for at in (1, 2)]
    shapes = {editor.graph.shape(name) for pair in pairs for name in pair}
    is_found = quantize.inputs[1] not in editor.graph.constants
    is_of_bytes = editor.graph.tensors[quantize.output].dtype.name in EIGHT_BITS
    return is_found and is_of_bytes and shapes == {()} and all(first == second for first, second in pairs)


def _scalar_of(editor: GraphEditor, tensor: str) -> str:
    """What a scalar was copied of."""
    while (copy := editor.producer(tensor, "Identity", "Strided", "Reshape")) is not None:
        if editor.graph.shape(tensor) != () or editor.graph.shape(copy.inputs[0]) != ():
            break
        tensor = copy.inputs[0]
    return tensor


def _round_by_found(editor: GraphEditor, node: Node, quantize: Node) -> None:
    """The same as `_round_in_floats` with a scale and a zero point that are scalars of the graph."""
    x, scale, zero_point = quantize.inputs
    info = np.iinfo(editor.graph.tensors[quantize.output].dtype)
    zero = _add(editor, node, "Elementwise", zero_point, function="cast", dtype="float32", alpha=0.0, beta=0.0)
    low, high = (
        _add(editor, node, "Sub", editor.add_constant(f"{node.name}/{at}", np.array(value, np.float32)), zero)
        for at, value in (("low", info.min), ("high", info.max))
    )
    editor.rewrite(node, "Mul", [_between(editor, node, _steps_in(editor, node, x, scale), low, high), scale], {})


def _add(editor: GraphEditor, node: Node, op: str, *inputs: str, **attributes: Any) -> str:
    """A step before a node, with its name."""
    return editor.insert_before(node, op, f"{node.name}/{op}", list(inputs), attributes)


def _steps_in(editor: GraphEditor, node: Node, x: str, scale: str) -> str:
    return _add(editor, node, "Round", _add(editor, node, "Div", x, scale))


def _between(editor: GraphEditor, node: Node, steps: str, low: str, high: str) -> str:
    return _add(editor, node, "Min", _add(editor, node, "Max", steps, low), high)


def _rounded_before(editor: GraphEditor) -> list[str]:
    """What a source that rounds by fixed point has integers of in the end is rounded by an activation before that."""
    changes = []
    for node in editor.nodes("QuantizeLinear"):
        known, source = editor.graph.tensors[node.output].quantization, editor.graph.tensors[node.inputs[0]]
        is_eight_bits = known is not None and known.is_whole and known.integers in EIGHT_BITS
        if known is None or not known.fixed_point or not is_eight_bits or source.dtype != np.float32:
            continue
        if source.quantization is None:
            limits = _steps_of(known).limits
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

    steps = _steps_in(editor, node, x, by := constant("scale", scale))
    low, high = info.min - zero, info.max - zero
    if np.ptp(zero) == 0:
        limited = _add(editor, node, "Clip", steps, alpha=float(low.flat[0]), beta=float(high.flat[0]))
    else:
        limited = _between(editor, node, steps, constant("lowest", low), constant("highest", high))
    editor.rewrite(node, "Mul", [limited, by], {})


def _steps_of(quantization: Quantization) -> FakeSteps:
    """The values that the integers of a whole tensor stand for."""
    (scale,), (zero,), info = quantization.scale, quantization.zero_point, np.iinfo(quantization.integers)
    least, most = int(info.min), int(info.max)
    return FakeSteps((least - zero) * scale, (most - zero) * scale, most - least)


@pass_over(*FAKE_QUANTIZATIONS)
def remove_needless_quantizations(editor: GraphEditor, node: Node) -> str:
    """Removes FakeQuantize of what holds such values already, and what clamps no closer than it does itself."""
    steps = fake_steps(node)
    clamp = editor.producer(node.inputs[0], *_CLAMPS)
    if _is_quantized(editor, node.inputs[0], steps) and editor.bypass(node):
        return node.name
    if clamp is None or steps is None or not _is_wider(clamp, steps):
        return ""
    editor.set_inputs(node, clamp.inputs)
    return f"{clamp.name} before {node.name}"


@pass_over(*FAKE_QUANTIZATIONS)
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


def _is_quantized(editor: GraphEditor, tensor: str, steps: FakeSteps | None) -> bool:
    """Whether a tensor holds values that rounding to these steps does not change."""
    pending, seen = [tensor], set[str]()
    while pending:
        name = pending.pop()
        node = editor.producer(name)
        carries = node is not None and _carries(node)
        if node is None or (not carries and fake_steps(node) != steps):
            return False
        if carries and name not in seen:
            pending += node.inputs
        seen.add(name)
    return True


def _carries(node: Node) -> bool:
    if node.op == "Pad":  # zero is a step of all
        return node.attrs["mode"] != "constant" or bool(node.attrs["value"] == 0)
    return node.op in _CARRIERS or (node.op == "Resize" and node.attrs["mode"] == "nearest")


def fake_steps(node: Node) -> FakeSteps | None:
    """The steps that a node rounds its result to; None of any other."""
    number = FAKE_QUANTIZATIONS.get(_OF_ACTIVATIONS.get(node.attrs.get("activation", ""), node.op))
    return FakeSteps(node.attrs["alpha"], node.attrs["beta"], number) if number else None


def _is_wider(clamp: Node, steps: FakeSteps) -> bool:
    """Whether a clamp changes nothing that steps do not change to the same: its bounds may lie half a step within."""
    least, most = (0.0, math.inf) if clamp.op == "Relu" else (clamp.attrs["alpha"], clamp.attrs["beta"])
    less_than_half = 0.49 * steps.size
    return least <= steps.low + less_than_half and most >= steps.high - less_than_half
