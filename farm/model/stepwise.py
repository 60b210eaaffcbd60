"""Judges a model operator by operator, each by what it makes of its own inputs on the unit.

End to end two right runs of a quantised model may differ as far as it turns one step into many, and those of a model
that decides by floats as far as it turns one choice. An operator does not: where sums round the other way, results
differ by one step, in few elements.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from farm.model import metrics
from farm.model.metrics import Thresholds
from farm.rows.status import Status
from runtime.graph import Array, Graph, Node
from runtime.operators.activations import ACTIVATION_ATTRIBUTES
from runtime.oracle.evaluate import compute, compute_node
from runtime.oracle.shared import first_input
from runtime.passes.fake_quantization import fake_steps
from runtime.types import Precision

# Share of elements that may be one step away: rounding moves a value by up to 2^-24, or 2^-11, of the largest of 255
# steps, summed values by some times that.
_ONE_STEP_AWAY = {False: 1e-3, True: 0.1}
_MIDDLE = {False: 1e-4, True: 0.05}  # steps
_FEW = 2  # elements that may be so in any tensor
_AS_GOOD_AS_FLOATS = 2**11  # steps, where half has no more
_ONE_STEP = {False: 1.01, True: 1.2}  # as the floats have it that stand for integers of up to 255
_LITTLE = 1e-3  # of the largest input: what is left where terms cancel out
_LAST_DIGITS = {False: 2.0**-18, True: 2.0**-8}  # as a share; means of a thousand terms differ so by their order

_WHOLE_PARTS = frozenset(("floor", "ceil", "round", "mod", "fmod"))


def decides(graph: Graph, node: Node) -> bool:
    """Whether a node makes a choice of floats, which their last digit may turn: an order, a place, a whole number."""
    reads_floats = any(graph.tensors[name].dtype.kind == "f" for name in node.inputs if name in graph.tensors)
    is_whole = graph.tensors[node.output].dtype.kind in "iub" or node.attrs.get("function") in _WHOLE_PARTS
    return reads_floats and is_whole


def departures(
    graph: Graph, values: Mapping[str, Array], precision: Precision, thresholds: Thresholds
) -> Iterator[tuple[Node, str]]:
    """The operators whose results are not what they make of their inputs, and why.

    `values`: inputs of the graph, and results of its operators on the unit; what that does not tell is as NumPy
    computes it. `thresholds`: for results that are not rounded to steps.
    """
    known: dict[str, Array] = dict(graph.constants) | dict(values)
    for node in graph.nodes:
        given = [known[name] if name else None for name in node.inputs]
        wanted = compute_node(graph, node, given)
        found = known.setdefault(node.output, wanted)
        reason = _objection(node, given, wanted, found, precision, thresholds)
        if reason:
            yield node, reason


def _objection(
    node: Node, given: Sequence[Array | None], wanted: Array, found: Array, precision: Precision, thresholds: Thresholds
) -> str:
    step = _step(node, wanted)
    if step is None or wanted.shape != found.shape:
        verdict = metrics.judge_output(wanted, found, thresholds)
        if verdict.status == Status.WRONG_RESULT and _cancels_out(node, given, wanted):
            loosened = metrics.for_movement(thresholds, metrics.compare(wanted, _moved(node, given, precision)))
            verdict = metrics.judge_output(wanted, found, loosened)
        return verdict.reason if verdict.status == Status.WRONG_RESULT else ""
    steps = np.abs(found.astype(np.float64) - wanted) / step
    away = int((steps > 0.5).sum())
    allowed = max(_FEW, int(_ONE_STEP_AWAY[precision.stores_half] * steps.size))
    if not steps.max(initial=0.0) <= _ONE_STEP[precision.stores_half]:  # a NaN, too
        return f"it is {steps.max():.1f} steps of {step:.3g} away"
    if away > allowed:
        away -= int((steps > 0.5)[_lie_between(node, given, step, precision)].sum())
    return f"{away} of {steps.size} elements are a step of {step:.3g} away" if away > allowed else ""


def _cancels_out(node: Node, given: Sequence[Array | None], wanted: Array) -> bool:
    """Whether nearly nothing is left of the terms that are summed, as of a mean that was subtracted before."""
    largest = max((float(np.abs(value).max(initial=0.0)) for value in _floats(given).values()), default=0.0)
    return wanted.dtype.kind == "f" and float(np.abs(wanted).max(initial=0.0)) < _LITTLE * largest


def _moved(node: Node, given: Sequence[Array | None], precision: Precision) -> Array:
    """What an operator makes of inputs whose last digits are others, as sums in another order differ."""
    random = np.random.default_rng(0)
    moved = list(given)
    for place, value in _floats(given).items():
        share = random.uniform(-1.0, 1.0, value.shape) * _LAST_DIGITS[precision.computes_in_half]
        moved[place] = (value * (1.0 + share)).astype(value.dtype)
    return compute(node.op, moved, node.attrs)


def _floats(given: Sequence[Array | None]) -> dict[int, Array]:
    return {place: value for place, value in enumerate(given) if value is not None and value.dtype.kind == "f"}


def _lie_between(node: Node, given: Sequence[Array | None], step: float, precision: Precision) -> Array:
    """Which results lie so near the middle of two steps before they are rounded that either is right."""
    if node.op in ("FakeQuantize", "Round"):
        exact = first_input(given)
    else:
        plain = {name: value for name, value in node.attrs.items() if name not in ACTIVATION_ATTRIBUTES}
        exact = compute(node.op, given, plain)
    return np.asarray(np.abs(exact / step % 1.0 - 0.5) < _MIDDLE[precision.stores_half])


def _step(node: Node, result: Array) -> float | None:
    """The step that an operator rounds its result to; None where it does not, or as finely as floats."""
    steps = fake_steps(node)
    if steps is not None:
        return steps.size if steps.number < _AS_GOOD_AS_FLOATS else None
    return 1.0 if node.op == "Round" or result.dtype.kind in "iu" else None
