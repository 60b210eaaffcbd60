"""Noise of half, operator by operator: measured by rounding, added up, and kept within a limit by the exact choice."""

import dataclasses
import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.choice import NodeChoice, Place
from runtime.oracle.evaluate import evaluate
from runtime.selection.candidates import Candidates
from runtime.selection.costs import total_ms
from runtime.selection.listing import find_candidates
from runtime.selection.noise import (
    MARGIN,
    MOST_AT_ONCE,
    HalfNoise,
    NoiseLimit,
    evaluate_rounded,
    noise_limits,
)
from runtime.selection.selection import select_among
from runtime.types import Precision, Precisions
from tests.runtime.graphs import GraphMaker
from tests.runtime.selection_graphs import AUTO, GPU, DrawnCosts, all_choices, any_graphs, several
from tests.runtime.test_mixed_precision import BOTH, FP16, FP32, HALF, MOST_CHOICES, lowered


def drawn_limit(candidates: Candidates, seed: int, share: float) -> NoiseLimit:
    """Noise drawn for each node in each precision; a share of what all would have in half may be."""
    random = np.random.default_rng(seed)
    powers: dict[tuple[str, Precision | None], float] = {}
    for node in candidates.graph.nodes:
        powers[node.output, HALF] = float(10.0 ** random.uniform(-6, 0))
        powers[node.output, FP16] = 3.0 * powers[node.output, HALF]
    return NoiseLimit(powers, share * sum(powers.values()))


def is_kept(limit: NoiseLimit, nodes: Mapping[str, NodeChoice]) -> bool:
    """Whether the nodes together bring no more noise than the limit."""
    return sum(limit.share(name, choice) for name, choice in nodes.items()) <= 1.0


@pytest.mark.slow
@several
@given(
    any_graphs(),
    st.sampled_from([BOTH, (FP32, FP16), (HALF, FP16)]),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.01, 0.1, 0.3]),
)
def test_no_choice_within_the_limit_is_cheaper(graph: Graph, precisions: Precisions, seed: int, share: float) -> None:
    costs, found = DrawnCosts(seed), find_candidates(graph, GPU, AUTO, precisions)
    assume(math.prod(len(found.choices(node)) for node in graph.nodes) <= MOST_CHOICES)
    limits = drawn_limit(found, seed, share), drawn_limit(found, seed + 1, share)
    candidates = dataclasses.replace(found, noise=limits)
    keeping = [nodes for nodes in all_choices(candidates) if all(is_kept(limit, nodes) for limit in limits)]
    if not keeping:
        with pytest.raises(ModelError, match="no choice"):
            select_among(candidates, costs)
        return
    selection = select_among(candidates, costs)
    least = min(total_ms(lowered(graph, GPU, nodes, precisions).launches, costs) for nodes in keeping)
    assert all(is_kept(limit, selection.choice.nodes) for limit in limits) and selection.gap == 0
    assert selection.milliseconds == pytest.approx(least)


def cancelling(make: GraphMaker, length: int = 3) -> tuple[Graph, set[str]]:
    """Convolutions around (a + b) - b with b a thousand times a, and the two operators that half ruins."""
    x = make.input(1, 4, 6, 6)
    for _ in range(length):
        x = make.conv(x, 4)
    large = make.add("Mul", make.conv(x, 4), make.graph.add_constant("scale", np.full((1,), 3e3, np.float32)))
    added = make.add("Add", make.conv(x, 4), large)
    left = make.add("Sub", added, large)
    y = left
    for _ in range(length):
        y = make.conv(y, 4)
    return make.finish(y), {added, left}


def test_what_half_ruins_is_found_in_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    make = GraphMaker()
    graph, culprits = cancelling(make, 12)
    runs = itertools.count()
    measured = HalfNoise._measured
    monkeypatch.setattr(HalfNoise, "_measured", lambda self, nodes: (next(runs), measured(self, nodes))[1])
    noise = HalfNoise(graph, make.noise())
    noise.refine(1e-3, lambda: False)
    powers = noise.powers(graph.outputs[0])
    assert set(sorted(powers, key=lambda name: powers[name])[-2:]) == culprits
    others = [power for name, power in powers.items() if name not in culprits]
    assert max(others) < 1e-3 * min(powers[name] for name in culprits)
    assert next(runs) < len(graph.nodes)


def test_noise_adds_up() -> None:
    """Powers of operators alone sum to that of all, but that a rounding may count for both sides of a tensor."""
    make = GraphMaker(seed=2)
    x = make.input(1, 8, 8, 8)
    for _ in range(8):
        x = make.conv(x, 8, activation="relu")
    graph, inputs = make.finish(x), make.noise()
    noise = HalfNoise(graph, inputs)
    whole = sum(noise.powers(x).values())
    noise.refine(0.0, lambda: False)
    assert 0.5 < sum(noise.powers(x).values()) / whole < 3.0


def test_rounding_is_that_of_half_in_memory() -> None:
    make = GraphMaker()
    x = make.input(1, 2, 3, 3)
    first = make.add("Relu", x)
    second = make.add("Add", first, x)
    graph, inputs = make.finish(second), {x: np.full((1, 2, 3, 3), 1.0 + 2.0**-12, np.float32)}
    exact = evaluate(graph, inputs)
    rounded = evaluate_rounded(graph, exact, {first})
    assert np.all(rounded[first] == 1.0) and np.all(rounded[second] == 2.0 + 2.0**-12)
    assert evaluate_rounded(graph, exact, set())[second] is exact[second]


def test_the_next_plan_may_have_as_much_less_noise_as_this_one_has_too_much() -> None:
    make = GraphMaker(seed=2)
    graph, _ = cancelling(make)
    (output,) = graph.outputs
    noise = HalfNoise(graph, make.noise())
    noise.refine(0.0, lambda: False)
    in_half = {node.output: HALF for node in graph.nodes}
    total = sum(noise.powers(output).values())
    (limit,) = noise_limits(noise, in_half, {output: 20.0})
    assert limit.most == pytest.approx(total / (20.0 * MARGIN))
    nodes = {name: NodeChoice(Place.BUFFER, precision=HALF) for name in in_half}
    assert not is_kept(limit, nodes), "the plan itself is excluded"
    (limit,) = noise_limits(noise, in_half, {output: math.inf})
    assert limit.most == pytest.approx(total / (MOST_AT_ONCE * MARGIN))


def test_what_overflows_stays_in_float() -> None:
    make = GraphMaker()
    x = make.conv(make.input(1, 4, 4, 4), 4)
    large = make.add("Mul", x, make.graph.add_constant("scale", np.full((1,), 6e4, np.float32)))
    small = make.add("Mul", large, make.graph.add_constant("scale", np.full((1,), 1.0 / 6e4, np.float32)))
    graph = make.finish(make.conv(small, 4))
    noise = HalfNoise(graph, make.noise())
    noise.refine(0.0, lambda: False)
    (limit,) = noise_limits(noise, {node.output: HALF for node in graph.nodes}, {graph.outputs[0]: math.inf})
    half = NodeChoice(Place.BUFFER, precision=HALF)
    beyond = {node.output for node in graph.nodes if limit.share(node.output, half) > 1.0}
    assert beyond == {large, small}
    selection = select_among(
        dataclasses.replace(find_candidates(graph, GPU, AUTO, BOTH), noise=(limit,)), DrawnCosts(1)
    )
    assert {selection.choice.nodes[name].precision for name in beyond} == {FP32}


def test_time_ends_between_two_runs() -> None:
    make = GraphMaker()
    graph, _ = cancelling(make)
    noise = HalfNoise(graph, make.noise())
    before = noise.powers(graph.outputs[0])
    noise.refine(0.0, lambda: True)
    assert noise.powers(graph.outputs[0]) == before and len(set(before.values())) == 1
