"""Computes operators of quantised graphs as TFLite's reference kernels do, where the graph says that its source did.

An operator on whole steps of eight bits is computed in whole numbers, and rounded by fixed point to the steps of its
result: of its own, or of those that a FakeQuantize behind it rounds to, which changes nothing afterwards.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.oracle.shared import Compute, image_windows
from runtime.registry import collect
from runtime.semantics import fixed_point
from runtime.semantics.fixed_point import Whole, multiply, quantized_multiplier
from runtime.semantics.fixed_point_softmax import softmax
from runtime.semantics.quantization import EIGHT_BITS, Quantization

_COMPUTE: Mapping[str, Compute] = collect("COMPUTE")
_MOVERS = ("Reshape", "Transpose")
_LEVELS = 256  # of a softmax
_LEFT_SHIFT = 20  # of the operands of a sum


@dataclasses.dataclass(frozen=True)
class FixedPoint:
    """What a node computes by fixed point: the steps of its inputs, weights included, and of its result."""

    node: Node
    given: tuple[Quantization | None, ...]
    target: Quantization

    def step(self, index: int) -> float:
        """Of a tensor with one scale."""
        known = self.given[index]
        assert known is not None
        return known.scale[0]

    def whole(self, arguments: Sequence[Array | None], index: int) -> Whole:
        """An argument in its own steps, from zero on."""
        value = arguments[index]
        assert value is not None
        return np.rint(value / self.step(index)).astype(np.int64)


def fixed_point_of(graph: Graph, node: Node) -> FixedPoint | None:
    """How a node is to be rounded; None where that is not by fixed point."""
    if node.op not in _RULES:
        return None
    given = tuple(graph.tensors[name].quantization if name else None for name in node.inputs)
    target = _target(graph, node) if given[0] is not None else None
    if target is None:
        return None
    found = FixedPoint(node, given, target)
    return found if _RULES[node.op][0](graph, found) else None


def _target(graph: Graph, node: Node) -> Quantization | None:
    """The steps of a node's result, which may lie behind what only moves it."""
    name, is_rounded = node.output, node.op == "FakeQuantize" or node.attrs.get("activation") == "fake_quantize"
    while not is_rounded:
        readers = graph.consumers(name)
        if len(readers) != 1 or name in graph.outputs or readers[0].op not in ("FakeQuantize", *_MOVERS):
            return None
        name, is_rounded = readers[0].output, readers[0].op == "FakeQuantize"
    known = graph.tensors[name].quantization
    return known if known is not None and known.fixed_point and _is_whole(known) else None


def _is_whole(known: Quantization | None) -> bool:
    return known is not None and known.is_whole and known.integers in EIGHT_BITS


def computed(graph: Graph, node: Node, arguments: Sequence[Array | None]) -> Array | None:
    """What the source's kernels make of the arguments, as floats; None where they are not rounded by fixed point."""
    found = fixed_point_of(graph, node)
    if found is None:
        return None
    (zero,), (step,), info = found.target.zero_point, found.target.scale, np.iinfo(found.target.integers)
    low, high = (_bound(node, name, step) for name in ("alpha", "beta"))
    steps = _RULES[node.op][1](found, arguments)
    steps = np.clip(steps, max(low, int(info.min) - zero), min(high, int(info.max) - zero))
    kinds = [argument.dtype for argument in arguments if argument is not None]
    return (steps * step).astype(np.result_type(*kinds))


def _bound(node: Node, name: str, step: float) -> float:
    """Of a clamp that a node has, in steps."""
    kind = node.attrs.get("activation", node.op.lower())
    if kind == "clip":
        return float(fixed_point.rounded_away(node.attrs[name] / step))
    if kind == "relu" and name == "alpha":
        return 0.0
    return -math.inf if name == "alpha" else math.inf


# --- which nodes have a form ---


def _first_is_whole(graph: Graph, found: FixedPoint) -> bool:
    return _is_whole(found.given[0])


def _all_are_whole(graph: Graph, found: FixedPoint) -> bool:
    return all(_is_whole(known) for known in found.given)


def _has_whole_weights(graph: Graph, found: FixedPoint) -> bool:
    weights, more = found.given[1], found.node.inputs[3:]
    is_one_of_rows = weights is not None and weights.axis in (None, 0) and not any(weights.zero_point)
    return _is_whole(found.given[0]) and is_one_of_rows and not any(more) and graph.is_constant(found.node.inputs[1])


def _interpolates(graph: Graph, found: FixedPoint) -> bool:
    return found.node.attrs["mode"] == "linear" and _has_steps_of_target(found)


def _keeps_steps(graph: Graph, found: FixedPoint) -> bool:
    padding = found.node.attrs.get("count_include_pad") and any(found.node.attrs["pads"])
    return _has_steps_of_target(found) and not padding


def _has_steps_of_target(found: FixedPoint) -> bool:
    """Whether the input has the steps of the result, however it was rounded to them."""
    known = found.given[0]
    return known is not None and dataclasses.replace(known, fixed_point=True) == found.target


# --- what they compute ---


def product_factors(found: FixedPoint) -> tuple[Array, Whole, Whole]:
    """Of a product with constant weights: the weights' scales, multipliers and shifts of the results."""
    weights = found.given[1]
    assert weights is not None
    scales = np.array(weights.scale, np.float64)
    return scales, *quantized_multiplier(scales * found.step(0) / found.target.scale[0])


def whole_bias(bias: Array, found: FixedPoint) -> Whole:
    """The biases of a product with constant weights, in steps of its sums."""
    return np.rint(bias.astype(np.float64) / (product_factors(found)[0] * found.step(0))).astype(np.int64)


def _product(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    x, w, bias = found.whole(arguments, 0), arguments[1], arguments[2] if len(arguments) > 2 else None
    assert w is not None
    scales, *requantization = product_factors(found)
    whole = np.rint(w / scales.reshape(-1, *(1,) * (w.ndim - 1)))
    operands = [x.astype(np.float64), whole, None if bias is None else whole_bias(bias, found).astype(np.float64)]
    sums = _COMPUTE[found.node.op](operands, found.node.attrs)
    behind = (1,) * (w.ndim - 2)
    multiplier, shift = (each.reshape(-1, *behind) for each in requantization)
    product = fixed_point.multiply_once if rounds_once(found) else multiply
    return product(np.rint(sums).astype(np.int64), multiplier, shift)


def rounds_once(found: FixedPoint) -> bool:
    """Whether a product is rounded once: what multiplies matrices does so."""
    return found.node.op == "FullyConnected"


def sum_factors(found: FixedPoint) -> list[tuple[Whole, Whole]]:
    """Multipliers and shifts of both operands of a sum, and of the result."""
    twice = 2 * max(found.step(0), found.step(1))
    reals = (found.step(0) / twice, found.step(1) / twice, twice / ((1 << _LEFT_SHIFT) * found.target.scale[0]))
    return [quantized_multiplier(real) for real in reals]


def _sum(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    *own, of_result = sum_factors(found)
    a, b = (multiply(found.whole(arguments, i) << _LEFT_SHIFT, *own[i]) for i in (0, 1))
    return multiply(a - b if found.node.op == "Sub" else a + b, *of_result)


def product_factor(found: FixedPoint) -> tuple[Whole, Whole]:
    """Multiplier and shift of a product of two tensors: single precision, as the source has it."""
    one, other, by = (np.float32(step) for step in (found.step(0), found.step(1), found.target.scale[0]))
    return quantized_multiplier(one * other / by)


def _pair_product(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    return multiply(found.whole(arguments, 0) * found.whole(arguments, 1), *product_factor(found))


def rescaling(found: FixedPoint) -> tuple[Whole, Whole]:
    """Multiplier and shift from the steps of the input to those of the result."""
    return quantized_multiplier(found.step(0) / found.target.scale[0])


def _rescaled(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    return multiply(found.whole(arguments, 0), *rescaling(found))


def _average(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    """In the integers themselves, zero point included."""
    attributes, (zero,) = found.node.attrs, found.target.zero_point
    own = found.whole(arguments, 0) + zero
    ones = np.ones((1, 1, *own.shape[2:]), np.int64)
    sums, counts = (image_windows(x, attributes["kernel"], attributes, 0).sum(axis=(4, 5)) for x in (own, ones))
    return fixed_point.divided(sums, counts) - zero


def mean_factor(found: FixedPoint, count: int) -> tuple[Whole, Whole]:
    """Multiplier and shift from sums of so many elements to the steps of the result."""
    return fixed_point.divided_multiplier(*rescaling(found), count)


def _mean(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    x, axes = found.whole(arguments, 0), tuple(found.node.attrs["axes"])
    sums = x.sum(axis=axes, keepdims=bool(found.node.attrs["keepdims"]))
    return multiply(sums, *mean_factor(found, x.size // sums.size))


def _resized(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    """In the integers themselves, zero point included; places and weights count 2^-10 of a pixel."""
    own, attributes = found.whole(arguments, 0) + found.target.zero_point[0], found.node.attrs
    mode = attributes["coordinate_transformation_mode"]
    for axis, size in zip((2, 3), attributes["sizes"], strict=True):
        weights = fixed_point.interpolation_weights(own.shape[axis], size, mode)
        own = np.moveaxis(np.tensordot(own, weights, (axis, 1)), -1, axis)
    return fixed_point.divided(own, 1 << 20) - found.target.zero_point[0]


def _leaky(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    x = found.whole(arguments, 0)
    slope = np.float32(found.step(0)) * np.float32(found.node.attrs["alpha"]) / np.float32(found.target.scale[0])
    return np.where(x < 0, multiply(x, *quantized_multiplier(slope)), multiply(x, *rescaling(found)))


def _hard_swish(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    return fixed_point.hard_swish(found.whole(arguments, 0), found.step(0), found.target.scale[0])


def _softmax(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    x, axis = found.whole(arguments, 0), found.node.attrs["axis"]
    return np.moveaxis(softmax(np.moveaxis(x, axis, -1), found.step(0), _LEVELS), -1, axis)


def _has_all_levels(graph: Graph, found: FixedPoint) -> bool:
    return _is_whole(found.given[0]) and found.target.scale[0] == 1 / _LEVELS


def _function(found: FixedPoint, arguments: Sequence[Array | None]) -> Whole:
    """By a table of floats."""
    real = (found.whole(arguments, 0) * found.step(0)).astype(np.float32)
    y = _COMPUTE[found.node.op]([real], found.node.attrs)
    return fixed_point.rounded_away(y * (np.float32(1) / np.float32(found.target.scale[0])))


_Serves = Callable[[Graph, FixedPoint], bool]
_Rule = Callable[[FixedPoint, Sequence[Array | None]], Whole]
_RULES: Mapping[str, tuple[_Serves, _Rule]] = {
    **dict.fromkeys(("Conv", "FullyConnected"), (_has_whole_weights, _product)),
    **dict.fromkeys(("Add", "Sub"), (_all_are_whole, _sum)),
    "Mul": (_all_are_whole, _pair_product),
    **dict.fromkeys(("FakeQuantize", "Relu", "Clip"), (_first_is_whole, _rescaled)),
    "AveragePool": (_keeps_steps, _average),
    "ReduceMean": (_first_is_whole, _mean),
    "Resize": (_interpolates, _resized),
    "LeakyRelu": (_first_is_whole, _leaky),
    "Softmax": (_has_all_levels, _softmax),
    "HardSwish": (_first_is_whole, _hard_swish),
    **dict.fromkeys(("Sigmoid", "Tanh"), (_first_is_whole, _function)),
}
