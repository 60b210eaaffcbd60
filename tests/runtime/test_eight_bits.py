"""Of all ways to compute a quantised model's operators in bytes or in floats, the one of least time is found."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from runtime.graph import Graph
from runtime.lowering.builder import Builder
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.lowering.quantized_choice import choose_quantized
from runtime.lowering.tables import QUANTIZED_OPERATORS
from runtime.lowering.value import InBytes
from runtime.selection.eight_bits import OperatorTimes, floats_of_least_time
from runtime.target import Target
from tests.native.test_quantized_operators import Maker

CPU = Target("host", "host", memory="cpu", cpu_block=8)


def network() -> tuple[Graph, InBytes]:
    """Convolutions of one tensor, rounded and not, a sum, a function, and what only floats have."""
    maker = Maker()
    x = maker.image(1, 16, 6, 6)
    a = maker.last("Sigmoid", x)
    b = maker.convolution(a, 16, k=1)
    c = maker.last("Add", a, maker.last("Neg", x))
    d = maker.convolution(c, 16, k=1)
    e = maker.add("Softmax", maker.last("Abs", a), axis=3)
    graph = maker.finish(b, d, e)
    return graph, choose_quantized(Builder(graph, CPU, Options()), ())


def drawn(graph: Graph, choice: InBytes, seed: int) -> OperatorTimes:
    random = np.random.default_rng(seed)
    size = max(info.size for info in graph.tensors.values())
    tables = [{name: float(random.integers(1, 60)) for name in choice.nodes} for _ in range(2)]
    into, out_of = random.integers(1, 30, 2) / size
    return OperatorTimes(tables[0], tables[1], (float(into), float(out_of)))


def cost(graph: Graph, choice: InBytes, times: OperatorTimes, in_bytes: frozenset[str]) -> float:
    """By definition: the operators, and each tensor's conversions."""
    total = sum((times.in_bytes if name in in_bytes else times.in_floats)[name] for name in choice.nodes)
    stored = {choice.nodes[name] for name in in_bytes} & set(choice.tensors)
    joined = set(choice.nodes.values()) - choice.nodes.keys()
    for name, info in graph.tensors.items():
        if graph.is_constant(name):
            continue
        readers = [node for node in graph.consumers(name) if node.output not in joined]
        floats = name in graph.outputs or any(node.output not in in_bytes for node in readers)
        roundings = [node for node in readers if node.op == "FakeQuantize" and name not in choice.tensors]
        as_bytes = any(node.output in in_bytes for node in readers if node not in roundings)
        total += times.per_element[0] * info.size * (as_bytes and name not in stored)
        total += times.per_element[1] * info.size * (floats and name in stored)
    return total


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_takes_less_time(seed: int) -> None:
    graph, choice = network()
    times, names = drawn(graph, choice, seed), list(choice.nodes)
    assert {QUANTIZED_OPERATORS[node.op].rounds for node in graph.nodes if node.output in choice.nodes} == {True, False}
    floats = floats_of_least_time(graph, choice, times)
    every = (
        frozenset(itertools.compress(names, chosen)) for chosen in itertools.product((True, False), repeat=len(names))
    )
    least = min(cost(graph, choice, times, each) for each in every)
    assert cost(graph, choice, times, frozenset(names) - floats) == pytest.approx(least, rel=1e-5)


def test_slow_bytes_are_floats_and_slow_floats_bytes() -> None:
    graph, choice = network()
    slow, fast = dict.fromkeys(choice.nodes, 1e4), dict.fromkeys(choice.nodes, 1.0)
    assert floats_of_least_time(graph, choice, OperatorTimes(slow, fast, (0.1, 0.1))) == choice.nodes.keys()
    assert floats_of_least_time(graph, choice, OperatorTimes(fast, slow, (0.1, 0.1))) == frozenset()


def test_a_node_that_is_chosen_so_computes_in_floats() -> None:
    graph, choice = network()
    name = next(node.name for node in graph.nodes if node.op == "Conv")
    output = next(node.output for node in graph.nodes if node.name == name)
    notes = [
        {step.name: step.note for step in lower(graph, CPU, Options(cpu=CpuOptions(in_floats=chosen))).steps}[name]
        for chosen in (frozenset[str](), frozenset({output}))
    ]
    assert output in choice.nodes and notes[0] == "eight bits" != notes[1]
