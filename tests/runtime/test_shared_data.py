"""Plans of one network's subgraphs in one data file: each constant once, and every plan computes what it did."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, lower
from runtime.native.build import build_farmrt
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.shared_data import with_shared_data
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import run_on
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker

BUFFER = target_of_device(default_device(), memory="buffer")
TARGETS = {
    "buffer": BUFFER,
    "image": dataclasses.replace(BUFFER, memory="image"),
    "cpu": Target(soc="x", abi="x", memory="cpu"),
}


def headed(channels: int, seed: int = 0) -> tuple[Graph, dict[str, Array]]:
    """The backbone of a seed, 16 and 24 channels, with a head of its own; and inputs."""
    maker = GraphMaker(seed=seed)
    x = maker.conv(maker.conv(maker.input(1, 3, 8, 8), 16), 24)
    return maker.finish(maker.conv(x, channels, 1)), maker.noise()


def lowered(graph: Graph, target: Target) -> Plan:
    return lower(graph, target, Options(separate_weights=True))


def outputs(plan: Plan, inputs: dict[str, Array], folder: Path) -> dict[str, Array]:
    if plan.target.memory == "cpu":
        with Farmrt(build_farmrt(), folder) as farmrt:
            return run_on(farmrt, plan, inputs)
    return Executor(encode_plan(plan), plan.data, default_device()).run(inputs)


@pytest.mark.slow
@pytest.mark.parametrize("memory", TARGETS)
def test_two_heads_of_a_backbone_have_its_weights_once(memory: str, tmp_path: Path) -> None:
    heads = [headed(5), headed(7)]
    apart = [lowered(graph, TARGETS[memory]) for graph, _ in heads]
    shared = with_shared_data(apart)
    first, second = (set(contents(plan)) for plan in apart)
    assert shared[0].data == shared[1].data
    assert len(shared[0].data) == sum(map(len, first | second)) < sum(len(plan.data) for plan in apart) - 4 * 24 * 16
    for plan, own, (graph, inputs) in zip(shared, apart, heads, strict=True):
        assert contents(plan) == contents(own)
        assert plan.weights_bytes == own.weights_bytes == len(own.data)
        expected, actual = evaluate(graph, inputs), outputs(plan, inputs, tmp_path)
        for name in graph.outputs:
            np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=1e-4)


def test_plans_with_little_in_common_keep_their_own_files() -> None:
    plans = [lowered(headed(5, seed)[0], TARGETS["cpu"]) for seed in (1, 2)]
    assert with_shared_data(plans) == plans


def test_a_plan_joins_two_that_have_nothing_in_common() -> None:
    """The middle one has half of each of the others."""
    weights = [np.full((16, 16, 1, 1), value, np.float32) for value in (1, 2)]
    plans = [lowered(pointwise(*own), TARGETS["cpu"]) for own in (weights[:1], weights[1:], weights)]
    shared = with_shared_data(plans)
    assert {plan.data for plan in shared} == {shared[2].data}
    assert [contents(plan) for plan in shared] == [contents(plan) for plan in plans]


def test_separate_weights_are_the_same_data_in_a_pool_for_each_constant() -> None:
    graph, _ = headed(5)
    together, separate = lower(graph, TARGETS["cpu"]), lowered(graph, TARGETS["cpu"])
    assert together.data == separate.data
    assert len(together.constants) == 1 < len(separate.constants) == 6


def contents(plan: Plan) -> list[bytes]:
    """The weights of a plan, one after the other."""
    return [plan.data[start : start + size] for start, size in plan.constants]


def pointwise(*weights: Array) -> Graph:
    """Convolutions of 1 x 1, one after the other."""
    maker = GraphMaker()
    x = maker.input(1, 16, 4, 4)
    for values in weights:
        x = maker.add(
            "Conv", x, maker.graph.add_constant("w", values), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1
        )
    return maker.finish(x)
