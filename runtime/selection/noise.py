"""How much noise rounding to half brings to a graph's outputs, operator by operator, and how much a choice may have.

Independent roundings are noises whose powers add up at an output, each as the network behind it passes it on: the
model by which Lin, Talathi and Annapureddy ("Fixed Point Quantization of Deep Convolutional Networks", 2016) share out
bit widths. So a bound on the noise of a plan is linear in its operators' precisions, and part of the 0/1 program. The
model says which operators to spare; how much noise a plan really has is measured on the unit and scales the model.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.lowering.choice import NodeChoice
from runtime.oracle.evaluate import compute, evaluate
from runtime.types import Precision

# Noise power beside that of half storage: sums in half take some 5 dB more (1 to 8 dB, docs/results.md).
NodePrecisions = Mapping[str, Precision]  # of each node, by name
POWER_IN = {Precision.FP16_STORAGE: 1.0, Precision.FP16: 3.0}
MARGIN = 1.1  # so many times less noise than allowed is aimed at
MOST_AT_ONCE = 100.0  # by which noise is lowered where nobody knows how much there is
FINE = 1 / 16  # of the noise that is allowed: operators that bring less together are not looked at one by one


@dataclasses.dataclass(frozen=True)
class NoiseLimit:
    """A limit on one output: the noise powers that all nodes bring to it sum to at most `most`.

    `powers`: noise power over signal power by the node's output and its precision; what it lacks brings none.
    """

    powers: Mapping[tuple[str, Precision | None], float]
    most: float

    def power(self, name: str, choice: NodeChoice) -> float:
        """Returns the noise power that a node brings under a choice."""
        return self.powers.get((name, choice.precision), 0.0)

    def share(self, name: str, choice: NodeChoice) -> float:
        """The noise power that a node brings, as a share of the limit `most`; infinite where the limit is 0."""
        power = self.power(name, choice)
        return power / self.most if self.most else math.inf if power else 0.0


@dataclasses.dataclass(frozen=True)
class _Group:
    """Nodes that follow each other, and the noise at each output where all of them are in half."""

    nodes: tuple[str, ...]
    powers: Mapping[str, float]


class HalfNoise:
    """What each node brings to each output, from runs in NumPy in which a group of nodes alone is rounded to half.

    Groups are halved, those that bring most first; the nodes of one that was not halved to the end share what it
    brings. `inputs`: of the graph's shapes.
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, Array]) -> None:
        self._graph, self._exact = graph, evaluate(graph, inputs)
        nodes = tuple(node.output for node in graph.nodes if has_floats(graph, node))
        self._groups = [self._measured(nodes)] if nodes else []

    def refine(self, enough: float, is_over: Callable[[], bool]) -> None:
        """Halves groups until each of several nodes brings at most this share of all noise, or `is_over`."""
        while not is_over():
            large = {at: share for at, share in enumerate(self._shares()) if len(self._groups[at].nodes) > 1}
            at = max(large, key=lambda at: large[at], default=None)
            if at is None or large[at] <= enough:
                return
            nodes = self._groups[at].nodes
            middle = len(nodes) // 2
            self._groups[at : at + 1] = [self._measured(nodes[:middle]), self._measured(nodes[middle:])]

    def powers(self, output: str) -> dict[str, float]:
        """Noise power over signal power at an output, by node, where the node alone is stored in half."""
        return {name: group.powers[output] / len(group.nodes) for group in self._groups for name in group.nodes}

    def _shares(self) -> list[float]:
        """The largest share of the noise at any output that each group brings."""
        totals = {output: _finite_sum(group.powers[output] for group in self._groups) for output in self._graph.outputs}
        return [
            max(
                (power if math.isinf(power) else power / (totals[output] or 1.0))
                for output, power in each.powers.items()
            )
            for each in self._groups
        ]

    def _measured(self, nodes: tuple[str, ...]) -> _Group:
        rounded = evaluate_rounded(self._graph, self._exact, nodes)
        return _Group(nodes, {name: _noise(self._exact[name], rounded[name]) for name in self._graph.outputs})


def has_floats(graph: Graph, node: Node) -> bool:
    """Returns whether a node reads or writes floats, so that precision changes its results."""
    return any(graph.tensors[name].dtype == np.float32 for name in (*node.inputs, node.output) if name)


def evaluate_rounded(graph: Graph, exact: Mapping[str, Array], nodes: Collection[str]) -> dict[str, Array]:
    """All tensors where some nodes read and write half; `exact` has them where none does, and what does not change."""
    values, chosen = dict(exact), set(nodes)
    for node in graph.nodes:
        is_rounded = node.output in chosen
        if not is_rounded and all(values[name] is exact[name] for name in node.inputs if name):
            continue
        arguments = [values[name] if name else None for name in node.inputs]
        if is_rounded:
            arguments = [None if each is None else _in_half(each) for each in arguments]
        value = compute(node.op, arguments, node.attrs)
        values[node.output] = _in_half(value) if is_rounded else value
    return values


def _in_half(values: Array) -> Array:
    if values.dtype != np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _noise(exact: Array, actual: Array) -> float:
    """Noise power over signal power; infinite where a value is no number any more."""
    wide = exact.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.where(actual == exact, 0.0, actual.astype(np.float64) - wide)
        noise, signal = float(np.sum(error * error)), float(np.sum(wide * wide))
    if not math.isfinite(noise):
        return math.inf
    return noise / signal if signal and math.isfinite(signal) else math.inf if noise else 0.0


def _finite_sum(powers: Iterable[float]) -> float:
    return sum(power for power in powers if math.isfinite(power))


def noise_limits(noise: HalfNoise, precisions: NodePrecisions, excess: Mapping[str, float]) -> tuple[NoiseLimit, ...]:
    """Limits for the next plan by what the outputs of one were that has too much noise.

    `precisions`: of each node of that plan. `excess`: of each output, how many times the noise power that is allowed it
    has, as measured; infinite where outputs are no numbers. What the model says of the plan, divided by that, is
    what it may say of the next one: so the model's scale does not matter, and the plan itself is excluded.
    """
    return tuple(_limit(noise.powers(output), precisions, times) for output, times in excess.items())


def _limit(storage: Mapping[str, float], precisions: NodePrecisions, excess: float) -> NoiseLimit:
    powers: dict[tuple[str, Precision | None], float] = {
        (name, precision): power * factor for name, power in storage.items() for precision, factor in POWER_IN.items()
    }
    had = [powers.get((name, precision), 0.0) for name, precision in precisions.items()]
    if not all(map(math.isfinite, had)):
        return NoiseLimit(
            powers, _finite_sum(had)
        )  # what overflows may not be in half; of the rest nothing is known yet
    divisor = MOST_AT_ONCE if math.isinf(excess) else excess
    return NoiseLimit(powers, sum(had) / (divisor * MARGIN) if divisor else math.inf)
