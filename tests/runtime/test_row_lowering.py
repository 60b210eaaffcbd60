"""Layers of one row on OpenCL drivers for CPUs compute what is before and beside them, and other layers do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from runtime.graph import Graph
from runtime.lowering.choice import NodeChoice, Place, graph_choice
from runtime.lowering.lower import Options, lower
from runtime.target import Target, runs_on_cpu
from runtime.types import Precision
from tests.runtime.graphs import GraphMaker
from tests.runtime.test_lowering import BUFFER, check

OWN = runs_on_cpu(BUFFER.gpu_family)
ALONE = dataclasses.replace(BUFFER, gpu_family="pocl-3.1")
WIDTH = 24


def normalised(m: GraphMaker, *shape: int, centered: bool = False, **attributes: object) -> str:
    x = m.add("Tanh", m.input(*(shape or (1, 1, WIDTH))))
    norm = {"axes": (len(m.graph.shape(x)) - 1,), "epsilon": 0.01, "centered": centered, **attributes}
    return m.add("LayerNormalization", x, m.weights(WIDTH), **norm)


def layer(m: GraphMaker, x: str, *rest: str, out: int = 70, **attributes: object) -> str:
    return m.add("FullyConnected", x, m.weights(out, m.graph.shape(x)[-1]), *rest, **attributes)


def gated(m: GraphMaker, x: str) -> str:
    gate = layer(m, x, m.weights(70), activation="swish", alpha=1.5)
    return layer(m, x, "", "", gate)


def block(m: GraphMaker) -> Graph:
    """RMS normalisation, SwiGLU and a residual, then a normalisation before two layers, one with a bias."""
    x = normalised(m)
    y = layer(m, gated(m, x), m.weights(WIDTH), x, out=WIDTH)
    again = m.add("LayerNormalization", y, axes=(2,), epsilon=0.25, centered=False)
    return m.finish(layer(m, again, m.weights(70), activation="relu"), layer(m, again, "", y, out=WIDTH))


def plain_block(m: GraphMaker) -> Graph:
    """What the launches of one row compute, and nothing else."""
    return m.finish(layer(m, gated(m, normalised(m)), out=WIDTH))


def steps(graph: Graph, target: Target = ALONE, **options: object) -> list[str]:
    return [step.op for step in lower(graph, target, Options(**options)).steps]  # type: ignore[arg-type]


def test_a_gated_layer_of_a_normalised_row_is_one_launch() -> None:
    plan = lower(plain_block(GraphMaker()), ALONE)
    assert [step.op for step in plan.steps] == ["Tanh", "FullyConnected", "FullyConnected"]
    assert plan.steps[1].macs == 2 * 70 * WIDTH


def test_a_row_that_a_layer_adds_is_written_too() -> None:
    found = steps(block(GraphMaker()))
    assert (found.count("LayerNormalization"), found.count("FullyConnected")) == (1, 4)


@pytest.mark.skipif(not OWN, reason="the driver is no CPU's")
@pytest.mark.parametrize("network", [block, plain_block], ids=lambda network: network.__name__)
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.FP16_STORAGE], ids=lambda p: p.label)
def test_joined_launches_compute_the_graph(network: Callable[[GraphMaker], Graph], precision: Precision) -> None:
    maker = GraphMaker()
    check(maker, network(maker), dataclasses.replace(BUFFER, precision=precision))


@pytest.mark.skipif(not OWN, reason="the driver is no CPU's")
def test_what_is_kept_is_written() -> None:
    maker = GraphMaker()
    graph = plain_block(maker)
    check(maker, graph, options=Options(keep=tuple(node.output for node in graph.nodes)))


@pytest.mark.parametrize(
    "target",
    [
        dataclasses.replace(ALONE, gpu_family="mali"),
        dataclasses.replace(ALONE, precision=Precision.FP16, fp16=True),
        Target("host", "host", memory="cpu"),
    ],
    ids=["gpu", "half", "cpu"],
)
def test_other_targets_have_a_launch_for_each_layer(target: Target) -> None:
    found = steps(plain_block(GraphMaker()), target)
    assert (found.count("LayerNormalization"), found.count("FullyConnected")) == (1, 3)


def test_layers_that_cannot_be_allocated_together_are_apart() -> None:
    maker = GraphMaker()
    x = maker.input(1, 64)
    gate = layer(maker, x, out=1024, activation="relu")
    graph = maker.finish(layer(maker, x, "", "", gate, out=1024))
    weights = 4 * 1024 * 64
    targets = [dataclasses.replace(ALONE, max_allocation_bytes=times * weights // 4) for times in (8, 9)]
    assert [len(steps(graph, target)) for target in targets] == [2, 1]


def of_two_rows(m: GraphMaker) -> list[str]:
    return [gated(m, normalised(m, 2, WIDTH))]


def of_a_mean(m: GraphMaker) -> list[str]:
    return [layer(m, normalised(m, centered=True))]


def of_an_activation(m: GraphMaker) -> list[str]:
    return [layer(m, normalised(m, activation="relu"))]


def of_a_shift(m: GraphMaker) -> list[str]:
    x = m.input(1, WIDTH)
    attributes = {"axes": (1,), "epsilon": 0.01, "centered": False}
    return [layer(m, m.add("LayerNormalization", x, m.weights(WIDTH), m.weights(WIDTH), **attributes))]


def that_is_an_output(m: GraphMaker) -> list[str]:
    x = normalised(m)
    return [layer(m, x), x]


def whose_gate_is_read(m: GraphMaker) -> list[str]:
    x = m.input(1, WIDTH)
    gate = layer(m, x, activation="swish", alpha=1.0)
    return [layer(m, x, "", "", gate), m.add("Exp", gate)]


def whose_gate_reads_another(m: GraphMaker) -> list[str]:
    gate = layer(m, m.input(1, WIDTH), activation="swish", alpha=1.0)
    return [layer(m, m.input(1, WIDTH), "", "", gate)]


def of_integers(m: GraphMaker) -> list[str]:
    x = normalised(m)
    y = layer(m, x)
    weights = np.random.default_rng(0).integers(-127, 128, (70, WIDTH)).astype(np.float32) / 128
    m.graph.constants[m.graph.nodes[-1].inputs[1]] = weights
    return [y]


APART = (
    *(of_two_rows, of_a_mean, of_an_activation, of_a_shift, that_is_an_output),
    *(whose_gate_is_read, whose_gate_reads_another, of_integers),
)


@pytest.mark.parametrize("network", APART, ids=lambda network: network.__name__)
def test_what_a_row_cannot_take_along_has_a_launch(network: Callable[[GraphMaker], list[str]]) -> None:
    maker = GraphMaker()
    graph = maker.finish(*network(maker))
    assert len(steps(graph)) == len(graph.nodes)


@pytest.mark.parametrize(("other", "launches"), [(NodeChoice(Place.BUFFER), 3), (NodeChoice(Place.CPU), 5)])
def test_nodes_that_were_chosen_to_run_elsewhere_are_not_joined(other: NodeChoice, launches: int) -> None:
    graph = plain_block(GraphMaker())
    chosen = {node.output: NodeChoice(Place.BUFFER) for node in graph.nodes}
    joined = {node.output: other for node in graph.nodes if node.attrs.get("activation") or "epsilon" in node.attrs}
    target = dataclasses.replace(ALONE, allow_cpu=True)
    assert len(steps(graph, target, choice=graph_choice(graph, chosen | joined))) == launches
