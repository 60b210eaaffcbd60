"""Hard swish: x * clip(x + 3, 0, 6) / 6 and x * HardSigmoid(x) become one operator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor
from runtime.passes.products import factors

_SLOPE = 1 / 6
_CLOSE = 1e-5


def fuse_hard_swishes(graph: Graph) -> list[str]:
    """Turns products of x, its shifted clip and 1/6, in any order, into HardSwish(x)."""
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes("Mul", "Div"):
        source = _hard_swish_source(editor, node)
        if source is not None and "activation" not in node.attrs:
            editor.rewrite(node, "HardSwish", [source], {})
            changes.append(node.name)
    editor.finish()
    return changes


def _hard_swish_source(editor: GraphEditor, node: Node) -> str | None:
    """Returns the name of x where the node computes x * gate(x) with the gate of hard swish; else None."""
    factor, tensors = factors(editor, node)
    if len(tensors) != 2:
        return None
    for x, gate in (tensors, tensors[::-1]):
        scale = _gate_scale(editor, gate, x)
        if scale is not None and math.isclose(factor * scale, _SLOPE, rel_tol=_CLOSE):
            return x
    return None


def _gate_scale(editor: GraphEditor, gate: str, x: str) -> float | None:
    """Returns s where the gate is s * clip(x + 3, 0, 6): 1 for the clip itself, 1/6 for HardSigmoid; else None."""
    node = editor.producer(gate, "Clip", "HardSigmoid", "Add")
    if node is None:
        return None
    if node.op == "HardSigmoid":
        return _SLOPE if node.inputs[0] == x and _is_gate(node.attrs, _SLOPE, 0.5) else None
    clipped = node.op == "Clip" or node.attrs.get("activation") == "clip"
    if not clipped or not _is_gate(node.attrs, 0.0, 6.0):
        return None
    added = node if node.op == "Add" else editor.producer(node.inputs[0], "Add")
    return 1.0 if added is not None and x in added.inputs and 3.0 in map(editor.scalar, added.inputs) else None


def _is_gate(attributes: Mapping[str, Any], alpha: float, beta: float) -> bool:
    return math.isclose(attributes["alpha"], alpha, rel_tol=_CLOSE) and math.isclose(
        attributes["beta"], beta, rel_tol=_CLOSE
    )
