"""Gated activations: x times a gate that is computed from x becomes one operator: Gelu, Swish, Mish or HardSwish."""

import math
from collections.abc import Sequence
from typing import Any

from runtime.graph import Node
from runtime.passes.editor import GraphEditor, pass_over

Form = tuple[str, dict[str, Any]]

_CLOSE = 1e-4
_CLOSER = 1e-5  # of limits and slopes, which are written with all digits
_TANH_SLOPE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


@pass_over("Mul", "Div")
def fuse_gated_activations(editor: GraphEditor, node: Node) -> str:
    """Turns x/2 (1 + erf(x/sqrt 2)) into Gelu; its form with tanh, x sigmoid(a x), x tanh(softplus(x)) likewise, and
    x clip(x + 3, 0, 6)/6, in any order and as x HardSigmoid(x)."""
    found = None if "activation" in node.attrs else _activation(editor, node)
    if found is None:
        return ""
    source, (op, attributes) = found
    editor.rewrite(node, op, [source], attributes)
    return f"{node.name} into {op}"


def _activation(editor: GraphEditor, node: Node) -> tuple[str, Form] | None:
    """Returns x and the operator that the product computes of it; None where it is no gated activation."""
    factor, tensors = factors(editor, node)
    if len(tensors) != 2:
        return None
    for x, gate in (tensors, tensors[::-1]):
        form = _gelu(editor, gate, x) if _is(factor, 0.5) else None
        form = form or (_gated(editor, gate, x) if _is(factor, 1.0) else None)
        form = form or _hard_swish(editor, gate, x, factor)
        if form is not None:
            return x, form
    return None


def _gated(editor: GraphEditor, gate: str, x: str) -> Form | None:
    """The gates of one function: sigmoid(a x), tanh(softplus(x))."""
    node = editor.sole_producer(gate, "Sigmoid", "Tanh")
    if node is None:
        return None
    if node.op == "Sigmoid":
        slope, inner = factors_of(editor, node.inputs[0])
        return ("Swish", {"alpha": float(slope)}) if inner == [x] else None
    softplus = editor.producer(node.inputs[0], "Softplus")
    return ("Mish", {}) if softplus is not None and softplus.inputs[0] == x else None


def _hard_swish(editor: GraphEditor, gate: str, x: str, factor: float) -> Form | None:
    """The gates HardSigmoid, and clip(x + 3, 0, 6) with a factor of 1/6."""
    node = editor.producer(gate, "Clip", "HardSigmoid", "Add")
    if node is None:
        return None
    if node.op == "HardSigmoid":
        is_gate = node.inputs[0] == x and _is(factor, 1.0, _CLOSER) and _has(node, 1 / 6, 0.5)
        return ("HardSwish", {}) if is_gate else None
    added = node if node.op == "Add" else editor.producer(node.inputs[0], "Add")
    is_sum = added is not None and x in added.inputs and 3.0 in map(editor.scalar, added.inputs)
    is_clip = (node.op == "Clip" or node.attrs.get("activation") == "clip") and _has(node, 0.0, 6.0)
    return ("HardSwish", {}) if is_sum and is_clip and _is(factor, 1 / 6, _CLOSER) else None


def _has(node: Node, alpha: float, beta: float) -> bool:
    return _is(node.attrs["alpha"], alpha, _CLOSER) and _is(node.attrs["beta"], beta, _CLOSER)


def _gelu(editor: GraphEditor, gate: str, x: str) -> Form | None:
    """The gates 1 + erf(x / sqrt 2) and 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    terms = _terms(editor, gate)
    function = _other(editor, terms, 1.0)
    node = editor.producer(function, "Erf", "Tanh") if function else None
    if node is None:
        return None
    slope, inner = factors_of(editor, node.inputs[0])
    if node.op == "Erf":
        return ("Gelu", {}) if inner == [x] and _is(slope, math.sqrt(0.5)) else None
    return ("GeluTanh", {}) if _is(slope, _TANH_SLOPE) and _is_cubic(editor, inner, x) else None


def _is_cubic(editor: GraphEditor, tensors: Sequence[str], x: str) -> bool:
    """Whether the product of the tensors is x + 0.044715 x^3, or x (1 + 0.044715 x^2)."""
    if len(tensors) == 1:
        terms = _terms(editor, tensors[0])
        return x in terms and any(_is_power(editor, term, x, 3) for term in terms)
    rest = [name for name in tensors if name != x]
    if len(tensors) != 2 or len(rest) != 1:
        return False
    return _is_power(editor, _other(editor, _terms(editor, rest[0]), 1.0), x, 2)


def _is_power(editor: GraphEditor, tensor: str, x: str, exponent: int) -> bool:
    """Whether a tensor is 0.044715 x^exponent."""
    factor, tensors = factors_of(editor, tensor)
    count = 0
    for name in tensors:
        power = editor.producer(name, "Pow")
        is_power = power is not None and power.inputs[0] == x and editor.scalar(power.inputs[1]) is not None
        count += 1 if name == x else int(editor.scalar(power.inputs[1]) or 0) if is_power and power else -exponent
    return count == exponent and _is(factor, _CUBIC)


def _terms(editor: GraphEditor, tensor: str) -> list[str]:
    """The two terms of a sum; none of anything else."""
    node = editor.producer(tensor, "Add")
    return [] if node is None or "activation" in node.attrs else node.inputs


def _other(editor: GraphEditor, terms: Sequence[str], value: float) -> str:
    """The term beside a constant of this value, empty where there is none."""
    others = [name for name in terms if editor.scalar(name) != value]
    return others[0] if len(terms) == 2 and len(others) == 1 else ""


def _is(value: float, wanted: float, close: float = _CLOSE) -> bool:
    return math.isclose(value, wanted, rel_tol=close)


Product = tuple[float, list[str]]


def factors(editor: GraphEditor, node: Node) -> Product:
    """Returns a tree of Mul and Div as one constant factor and the tensors multiplied; none where one is a divisor.

    Only products that nothing else reads are taken apart.
    """
    factor, tensors = 1.0, []
    for index, name in enumerate(node.inputs):
        value = editor.scalar(name)
        inner = editor.sole_producer(name, "Mul", "Div")
        if value:
            factor *= 1 / value if node.op == "Div" and index == 1 else value
        elif node.op == "Div" and index == 1:
            return 1.0, []
        elif inner is not None and "activation" not in inner.attrs:
            inner_factor, inner_tensors = factors(editor, inner)
            if not inner_tensors:
                return 1.0, []
            factor *= inner_factor
            tensors += inner_tensors
        else:
            tensors.append(name)
    return factor, tensors


def factors_of(editor: GraphEditor, tensor: str) -> Product:
    """Returns the factors of a tensor, which may be no product at all."""
    node = editor.producer(tensor, "Mul", "Div")
    return (1.0, [tensor]) if node is None or "activation" in node.attrs else factors(editor, node)
