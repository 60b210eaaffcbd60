"""Transpositions move to where the fewest bytes are transposed, and change no value on their way."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from runtime.evaluate import evaluate
from runtime.graph import Array, Graph
from runtime.operators import check_graph
from runtime.passes.dead_code import remove_dead_code
from runtime.passes.editor import GraphEditor
from runtime.passes.transpose_movement.minimum_cut import best_frames
from runtime.passes.transpose_movement.movement import move_transposes
from runtime.passes.transpose_movement.rebuilding import Choice, Rebuilding
from runtime.passes.transpose_movement.regions import Region, find_regions, transpose_bytes
from tests.runtime.format_graphs import format_graphs
from tests.runtime.graphs import GraphMaker

Case = tuple[Graph, GraphMaker]
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


@pytest.fixture
def make() -> GraphMaker:
    return GraphMaker()


def moved_bytes(graph: Graph) -> int:
    """Bytes that the Transposes of a graph move."""
    nodes = [node for node in graph.nodes if node.op == "Transpose"]
    return sum(transpose_bytes(graph, node.inputs[0], node.attrs["perm"]) for node in nodes)


def check_moved(graph: Graph, make: GraphMaker) -> Graph:
    """Runs the pass; checks the graph's rules, every output's value and that no more bytes are moved than before."""
    check_graph(graph)
    inputs = {name: value.astype(np.float64) for name, value in make.noise().items()}
    outputs, before, size = list(graph.outputs), evaluate(graph, inputs), moved_bytes(graph)
    move_transposes(graph)
    check_graph(graph)
    assert graph.outputs == outputs
    assert moved_bytes(graph) <= size
    assert_same(evaluate(graph, inputs), before, outputs)
    return graph


def assert_same(after: dict[str, Array], before: dict[str, Array], outputs: list[str]) -> None:
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@settings(max_examples=150, deadline=None)
@given(case=format_graphs())
def test_no_value_changes_and_no_more_bytes_move(case: Case) -> None:
    check_moved(*case)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(case=format_graphs(most_steps=25))
def test_no_value_of_many_graphs_changes(case: Case) -> None:
    check_moved(*case)


@settings(max_examples=100, deadline=None)
@given(case=format_graphs())
def test_a_second_run_finds_nothing(case: Case) -> None:
    graph, _ = case
    move_transposes(graph)
    assert move_transposes(graph) == []


# The cut is the least


def regions_of(graph: Graph) -> list[Region]:
    perms = sorted({node.attrs["perm"] for node in graph.nodes if node.op == "Transpose"})
    return [region for perm in perms for region in find_regions(GraphEditor(graph), perm)]


def rebuilt(graph: Graph, number: int, frames: tuple[int, ...]) -> Graph:
    """A copy of the graph in which the operators of one region have these frames."""
    copied = copy.deepcopy(graph)
    Rebuilding(copied, [Choice(regions_of(copied)[number], frames)]).run()
    GraphEditor(copied).finish()
    return copied


@settings(max_examples=60, deadline=None)
@given(case=format_graphs(most_steps=9))
def test_no_choice_of_frames_moves_fewer_bytes_than_the_cut(case: Case) -> None:
    """Every choice for every region is carried out, and the bytes of its Transposes are counted."""
    graph, make = case
    remove_dead_code(graph)
    inputs = {name: value.astype(np.float64) for name, value in make.noise().items()}
    before = evaluate(graph, inputs)
    for number, region in enumerate(regions_of(graph)):
        if len(region.operators) > 7:
            continue
        sizes = {}
        for frames in itertools.product((0, 1), repeat=len(region.operators)):
            other = rebuilt(graph, number, frames)
            check_graph(other)
            assert_same(evaluate(other, inputs), before, graph.outputs)
            sizes[frames] = moved_bytes(other)
        best = best_frames(region)
        chosen = moved_bytes(graph) if best is None else sizes[tuple(best)]
        assert chosen == min(*sizes.values(), moved_bytes(graph))
