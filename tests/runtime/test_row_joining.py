"""What reads one row is joined: what a decoder computes of a word, before and after lowering."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from runtime import zoo
from runtime.convert import convert
from runtime.graph import Graph
from runtime.lowering.lower import Options, lower
from runtime.passes.row_joining import join_rows
from runtime.passes.simplification import remove_dead_code
from runtime.target import Target
from tests.runtime.graphs import GraphMaker, operators
from tests.runtime.test_lowering import BUFFER, IMAGE, check
from tests.runtime.test_passes import applied, unchanged

CPU = Target("host", "host", memory="cpu")
WIDTH = 4  # of a head


def rotated(m: GraphMaker, x: str, heads: int, angles: tuple[str, str]) -> str:
    shape = (1, 1, heads, WIDTH)
    return m.add("Rotary", x, *angles, shape=shape, strides=(0, 0, WIDTH, 1), offset=0)


def decoder(m: GraphMaker, with_bias: bool = False) -> tuple[str, ...]:
    """Outputs: products with all keys and all values, queries, and the new keys and values, which a caller keeps."""
    x, past_keys, past_values = m.input(1, 1, 6), m.input(1, 5, 8), m.input(1, 5, 8)
    biases = [[m.weights(8)] if with_bias and index == 2 else [] for index in range(3)]
    q, k, v = (
        m.add("FullyConnected", x, m.weights(width, 6), *bias) for width, bias in zip((16, 8, 8), biases, strict=True)
    )
    angles = m.weights(1, 1, 1, WIDTH), m.weights(WIDTH // 2)
    q = m.add("Reshape", rotated(m, q, 4, angles), shape=(1, 1, 16))
    k = m.add("Reshape", rotated(m, k, 2, angles), shape=(1, 1, 8))
    keys, values = (m.add("Concat", *each, axis=1) for each in ((past_keys, k), (past_values, v)))
    return *(m.add("MatMul", each, m.weights(8, 3)) for each in (keys, values)), m.add("Tanh", q), k, v


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_decoders_layers_are_one_and_so_are_its_rotations(make: GraphMaker, with_bias: bool) -> None:
    graph = applied(join_rows, make, *decoder(make, with_bias))
    assert [operators(graph).count(op) for op in ("FullyConnected", "Rotary")] == [1, 1]
    (layer,) = (node for node in graph.nodes if node.op == "FullyConnected")
    assert (graph.shape(layer.output), len(layer.inputs)) == ((1, 1, 32), 2 + with_bias)


@pytest.fixture
def make() -> GraphMaker:
    return GraphMaker()


def joined(m: GraphMaker) -> Graph:
    graph = m.finish(*decoder(m))
    join_rows(graph)
    remove_dead_code(graph)
    return graph


@pytest.mark.parametrize("target", [BUFFER, IMAGE, CPU], ids=["buffer", "image", "cpu"])
def test_nothing_of_a_decoders_row_is_copied(target: Target) -> None:
    """Keys and values lie where a Concat joins them with a cache, and what is computed with them lies behind."""
    plan = lower(joined(GraphMaker()), target)
    assert sorted(step.op for step in plan.steps) == ["FullyConnected", "MatMul", "MatMul", "Rotary", "Tanh"]
    places = {tensor.name: (tensor.place, tensor.offset) for tensor in (*plan.inputs, *plan.outputs)}
    cached, new = ([places[each.name] for each in tensors] for tensors in (plan.inputs[1:], plan.outputs[3:]))
    assert new == [(place, offset + 40) for place, offset in cached]


@pytest.mark.parametrize("target", [BUFFER, IMAGE], ids=["buffer", "image"])
def test_a_decoders_row_is_right(target: Target) -> None:
    maker = GraphMaker()
    check(maker, joined(maker), target)


def test_layers_that_are_kept_are_right() -> None:
    maker = GraphMaker()
    graph = joined(maker)
    check(maker, graph, options=Options(keep=tuple(node.output for node in graph.nodes)))


def of_two_rows(m: GraphMaker) -> list[str]:
    x = m.input(2, 6)
    return [m.add("FullyConnected", x, m.weights(8, 6)) for _ in range(2)]


def of_two_inputs(m: GraphMaker) -> list[str]:
    return [m.add("FullyConnected", m.input(1, 6), m.weights(8, 6)) for _ in range(2)]


def of_shared_weights(m: GraphMaker) -> list[str]:
    x, weights = m.input(1, 6), m.weights(8, 6)
    return [m.add("FullyConnected", x, weights, m.weights(8)) for _ in range(2)]


def of_activations(m: GraphMaker) -> list[str]:
    x = m.input(1, 6)
    return [m.add("FullyConnected", x, m.weights(8, 6), activation="relu") for _ in range(2)]


def of_eight_bits(m: GraphMaker) -> list[str]:
    """Each rounds its output to steps of its own."""
    x = m.input(1, 6)
    layers = [m.add("FullyConnected", x, m.weights(8, 6)) for _ in range(2)]
    return [m.add("FakeQuantize", layer, alpha=-1.0, beta=1.0) for layer in layers]


def of_other_angles(m: GraphMaker) -> list[str]:
    x = m.input(1, 16)
    angles = [(m.weights(WIDTH), m.weights(WIDTH)) for _ in range(2)]
    shape = {"shape": (2, WIDTH), "strides": (WIDTH, 1)}
    return [m.add("Rotary", x, *each, **shape, offset=8 * index) for index, each in enumerate(angles)]


def of_rows_apart(m: GraphMaker) -> list[str]:
    x, angles = m.input(1, 20), (m.weights(WIDTH), m.weights(WIDTH))
    shape = {"shape": (2, WIDTH), "strides": (WIDTH, 1)}
    return [m.add("Rotary", x, *angles, **shape, offset=12 * index) for index in range(2)]


APART = (of_two_rows, of_two_inputs, of_shared_weights, of_activations, of_eight_bits, of_other_angles, of_rows_apart)


@pytest.mark.parametrize("network", APART, ids=lambda network: network.__name__)
def test_what_cannot_be_one_row_stays(make: GraphMaker, network: Callable[[GraphMaker], list[str]]) -> None:
    unchanged(join_rows, make, *network(make))


def test_weights_of_other_integers_stay_apart(make: GraphMaker) -> None:
    """Joined they would be integers no more."""
    random, x = np.random.default_rng(0), make.input(1, 64)
    layers = []
    for most in (127, 7):
        name = make.weights(32, 64)
        integers = random.integers(-most, most + 1, (32, 64))
        integers[:, 0] = most
        make.graph.constants[name] = (integers / 128).astype(np.float32)
        layers.append(make.add("FullyConnected", x, name))
    unchanged(join_rows, make, *layers)


@pytest.mark.parametrize("target", [dataclasses.replace(BUFFER, gpu_family="mali"), CPU], ids=["gpu", "cpu"])
def test_a_block_that_decodes_takes_few_steps(target: Target) -> None:
    graph, _ = convert(zoo.build("llama_small_decode", width=0.1, size=8, classes=10))
    steps = lower(graph, target).steps
    assert len(steps) <= 3 + 8 * 10, [step.name for step in steps[:12]]
