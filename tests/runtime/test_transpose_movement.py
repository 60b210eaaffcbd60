"""Transpositions move to where the fewest bytes are transposed, and change no value on their way."""

import copy
import itertools
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings

from runtime.formats.permutation import inverse
from runtime.graph import Array, Graph
from runtime.lowering import minimum_cut
from runtime.operators.table import check_graph
from runtime.oracle.evaluate import evaluate
from runtime.passes.editor import GraphEditor
from runtime.passes.pipeline import run_passes
from runtime.passes.rounds import UnendingRewriting, repeated
from runtime.passes.simplification import remove_dead_code
from runtime.passes.transpose_movement.cost import graph_cost
from runtime.passes.transpose_movement.minimum_cut import best_frames, cut_cost
from runtime.passes.transpose_movement.movement import move_transposes
from runtime.passes.transpose_movement.rebuilding import Choice, Rebuilding
from runtime.passes.transpose_movement.regions import NEVER, Region, find_regions
from runtime.semantics.generic_forms import element_form
from tests.runtime.format_graphs import format_graphs
from tests.runtime.graphs import GraphMaker
from tests.time_limit import within, within_memory

Case = tuple[Graph, GraphMaker]
EXHAUSTIVE = os.environ.get("FARM_EXHAUSTIVE") == "1"
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def check_moved(graph: Graph, make: GraphMaker) -> Graph:
    """Runs the pass; checks the graph's rules, every output's value and that no more bytes are moved than before."""
    check_graph(graph)
    inputs = {name: value.astype(np.float64) for name, value in make.noise().items()}
    outputs, before, size = list(graph.outputs), evaluate(graph, inputs), graph_cost(graph).size_bytes
    with within(60), within_memory(1024):
        move_transposes(graph)
    check_graph(graph)
    assert graph.outputs == outputs
    assert graph_cost(graph).size_bytes <= size
    moved = [node.inputs[0] for node in graph.nodes if node.op in ("Transpose", "Reshape")]
    assert all(graph.tensors[name].dtype == np.float32 for name in moved)
    assert_same(evaluate(graph, inputs), before, outputs)
    return graph


def assert_same(after: dict[str, Array], before: dict[str, Array], outputs: list[str]) -> None:
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.slow
@settings(max_examples=3000 if EXHAUSTIVE else 80)
@given(case=format_graphs(most_steps=25))
def test_no_value_of_many_graphs_changes(case: Case) -> None:
    graph = check_moved(*case)
    assert move_transposes(graph) == []


@pytest.mark.slow
@settings(max_examples=3000 if EXHAUSTIVE else 60)
@given(case=format_graphs(most_steps=25))
def test_all_passes_end_on_many_graphs(case: Case) -> None:
    """What one pass does no other undoes: with the bound on rounds, which is an error here, they reach an end."""
    graph, _ = case
    with within(60), within_memory(1024):
        run_passes(graph)
        assert not any(report.changes for report in run_passes(graph))


def test_what_one_region_gains_another_does_not_lose(make: GraphMaker) -> None:
    """The sorting is in the order of the sums or in that of the activation, by where a region begins.

    So with the one it seems to be of use to move the activation there, and then with the other to move it back.
    """
    x = make.input(1, 2, 2, 2)
    most = make.add("Sorting", make.add("Tanh", x), axis=2, count=1, largest=True, positions=False)
    there = make.add("Relu", make.add("Transpose", make.add("Add", x, make.input(2, 2, 2)), perm=TO_NCHW))
    both = make.add("Add", make.add("Softmax", there, axis=3), most)
    graph = check_moved(make.finish(make.conv(most, 3, k=1), make.add("Neg", there), both), make)
    assert move_transposes(graph) == []


def test_merging_does_not_move_more_bytes_than_the_movement_that_it_follows(make: GraphMaker) -> None:
    """Else one pass undoes the other for ever: the first Transpose is an output, the second moves an axis of size 1."""
    first = make.add("Transpose", make.add("Relu", make.input(1, 2, 1, 2)), perm=TO_NHWC)
    graph = make.finish(first, make.add("Transpose", first, perm=(0, 2, 1, 3)))
    size = graph_cost(graph).size_bytes
    run_passes(graph)
    assert graph_cost(graph).size_bytes == size
    assert operators(graph) == ["Relu", "Transpose", "Reshape"]


def test_a_rewriting_without_an_end_is_an_error_in_tests_and_a_note_for_users() -> None:
    with pytest.raises(UnendingRewriting, match="a pass stopped after 100 rounds"):
        repeated("a pass", lambda: True)
    hidden = ["from runtime.passes.rounds import repeated; print(*repeated('a pass', lambda: True))"]
    shown = subprocess.run([sys.executable, "-c", *hidden], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("a pass stopped after 100 rounds: the graph is right") and not shown.stderr


# What moves


def test_transposes_meet_across_operators_that_are_rewritten(make: GraphMaker) -> None:
    """Axes, pads, ranges and constants go along, as does a residual branch with its broadcast operand."""
    x = make.input(1, 4, 6, 5)
    there = make.add("Transpose", make.conv(x, 4), perm=TO_NHWC)
    y = make.add("Pad", there, pads=(0, 1, 2, 0, 0, 0, 1, 3), value=0.0, mode="constant")
    y = make.add("Slice", y, starts=(1, 0), ends=(7, 4), axes=(1, 3), steps=(1, 1))
    y = make.add("Add", make.add("Mul", y, make.weights(4)), make.weights(8, 1))
    gate = make.add("Sigmoid", make.add("ReduceMean", y, axes=(1, 2), keepdims=True))
    soft = make.add("Softmax", make.add("Mul", y, gate), axis=3)
    wide = make.add("Concat", make.add("Add", soft, y), there, axis=2)
    back = make.add("Transpose", wide, perm=TO_NCHW)
    graph = check_moved(make.finish(make.conv(back, 2)), make)
    assert "Transpose" not in operators(graph)
    assert next(node for node in graph.nodes if node.op == "Softmax").attrs == {"axis": 1}


def test_a_transpose_moves_to_where_the_tensor_is_small(make: GraphMaker) -> None:
    x = make.add("Transpose", make.conv(make.input(1, 3, 8, 8), 4), perm=TO_NHWC)
    mean = make.add("ReduceMax", make.add("Relu", x), axes=(1,), keepdims=True)
    graph = check_moved(make.finish(make.add("Reshape", mean, shape=(8, 4))), make)
    assert operators(graph) == ["Conv", "Relu", "ReduceMax", "Transpose", "Reshape"]


def test_of_equal_bytes_the_choice_is_what_can_be_fused(make: GraphMaker) -> None:
    """An addition and an activation between a convolution and an output in NHWC go to the convolution."""
    x = make.add("Transpose", make.conv(make.input(1, 3, 4, 4), 4), perm=TO_NHWC)
    graph = check_moved(make.finish(make.add("Relu", make.add("Add", x, make.weights(4)))), make)
    assert operators(graph) == ["Conv", "Add", "Relu", "Transpose"]


def test_nothing_moves_where_nothing_becomes_better(make: GraphMaker) -> None:
    x = make.add("Transpose", make.input(2, 3, 4), perm=(0, 2, 1))
    graph = make.finish(make.add("MatMul", make.add("Relu", x), make.weights(3, 2)))
    assert move_transposes(graph) == []


def test_readers_of_both_orders_pay_for_one_transpose(make: GraphMaker) -> None:
    x = make.input(1, 2, 3, 4)
    copies = [make.add("Transpose", x, perm=TO_NHWC) for _ in range(3)]
    outputs = [make.add("Reshape", copy, shape=(3, 8)) for copy in copies]
    graph = check_moved(make.finish(*outputs, make.conv(x, 2)), make)
    assert operators(graph).count("Transpose") == 1


def test_a_branch_that_needs_the_other_order_does_not_keep_the_rest(make: GraphMaker) -> None:
    there = make.add("Transpose", make.conv(make.input(1, 4, 6, 6), 4), perm=TO_NHWC)
    flat = make.add("Reshape", there, shape=(36, 4))
    y = make.add("Transpose", make.add("Relu", there), perm=TO_NCHW)
    graph = check_moved(make.finish(flat, make.conv(y, 2)), make)
    assert operators(graph).count("Transpose") == 1


def test_permutations_of_sequences_and_of_more_axes_move_too(make: GraphMaker) -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((2, 3, 4), (1, 2, 0)), ((2, 3, 1, 2, 2), (0, 2, 3, 4, 1))]
    for shape, perm in cases:
        x = make.add("Transpose", make.input(*shape), perm=perm)
        y = make.add("Tanh", make.add("Mul", x, make.weights(make.graph.shape(x)[-1])))
        make.add("Transpose", y, perm=inverse(perm))
    outputs = [node.output for node in make.graph.nodes if node.op == "Transpose"][1::2]
    graph = check_moved(make.finish(*outputs), make)
    assert operators(graph) == ["Mul", "Tanh"] * 2


def test_an_operand_of_fewer_axes_is_reshaped_where_that_is_enough(make: GraphMaker) -> None:
    channels = make.add("Tanh", make.input(4))
    x = make.add("Transpose", make.conv(make.input(1, 3, 4, 4), 4), perm=TO_NHWC)
    y = make.add("Transpose", make.add("Add", x, channels), perm=TO_NCHW)
    graph = check_moved(make.finish(make.conv(y, 2)), make)
    assert sorted(operators(graph)) == ["Add", "Conv", "Conv", "Reshape", "Tanh"]


def test_an_open_transpose_joins_one_that_reaches_it(make: GraphMaker) -> None:
    x = make.add("Transpose", make.input(2, 3, 4), perm=(0, 2, 1))
    y = make.add("Transpose", make.add("Relu", x), perm=(2, 0, 1))
    graph = check_moved(make.finish(make.add("Reshape", y, shape=(24,))), make)
    assert operators(graph) == ["Relu", "Transpose", "Reshape"]


@pytest.mark.parametrize("rank", [1, 3])
def test_truths_and_integers_are_never_transposed(make: GraphMaker, rank: int) -> None:
    """The graph has no Transpose of them, so that a choice by one keeps its operands where they are."""
    other = make.input(*(2, 3, 4)[3 - rank :], dtype="bool")
    x = make.add("Transpose", make.input(2, 4, 3), perm=(0, 2, 1))
    where = make.add("Elementwise", other, x, make.weights(), **element_form("where", "float32"))
    graph = check_moved(make.finish(make.add("Transpose", where, perm=(0, 2, 1))), make)
    assert operators(graph) == ["Transpose", "Elementwise", "Transpose"]


def test_a_comparison_moves_where_nothing_else_reads_it(make: GraphMaker) -> None:
    x = make.add("Transpose", make.input(2, 4, 3), perm=(0, 2, 1))
    less = make.add("Elementwise", x, make.weights(4), **element_form("less", "bool"))
    where = make.add("Elementwise", less, x, make.weights(), **element_form("where", "float32"))
    graph = check_moved(make.finish(make.add("Transpose", where, perm=(0, 2, 1))), make)
    assert operators(graph) == ["Elementwise"] * 2


def test_an_output_keeps_its_name_and_a_double_one_too(make: GraphMaker) -> None:
    x = make.conv(make.input(1, 2, 3, 3), 2)
    outputs = [make.add("Transpose", x, perm=TO_NHWC) for _ in range(2)]
    graph = check_moved(make.finish(*outputs), make)
    assert sorted(operators(graph)) == ["Conv", "Identity", "Transpose"]


@pytest.mark.slow
def test_a_thousand_operators_take_seconds(make: GraphMaker) -> None:
    """Residual blocks in one region, and convolutions between Transposes in regions of their own; seconds of a core."""
    x = make.add("Transpose", make.input(1, 2, 3, 3), perm=TO_NHWC)
    for _ in range(100):
        branch = make.add("Add", make.add("Mul", make.add("Relu", x), make.weights(2)), make.weights(2))
        x = make.add("Add", x, make.add("Tanh", branch))
    for _ in range(100):
        y = make.conv(make.add("Transpose", x, perm=TO_NCHW), 2)
        x = make.add("Relu", make.add("Add", make.add("Transpose", y, perm=TO_NHWC), make.weights(2)))
    graph = make.finish(make.add("Transpose", x, perm=TO_NCHW))
    assert len(graph.nodes) > 1000
    started = time.process_time()
    move_transposes(graph)
    assert time.process_time() - started < 5
    assert "Transpose" not in operators(graph)


@pytest.mark.parametrize("extent", [4099, 20011])
def test_sizes_beyond_the_range_of_the_flow_are_compared_all_the_same(make: GraphMaker, extent: int) -> None:
    """Gigabytes, in a unit that is no larger than an element."""
    x = make.add("Transpose", make.input(3, extent, 10007), perm=(0, 2, 1))
    part = make.add("Slice", make.add("Relu", x), starts=(0,), ends=(extent - 2,), axes=(2,), steps=(1,))
    y = make.add("Concat", part, make.add("Tanh", part), axis=1)
    graph = make.finish(make.add("Reshape", y, shape=(3 * 2 * 10007, extent - 2)))
    move_transposes(graph)
    assert operators(graph) == ["Relu", "Slice", "Transpose", "Tanh", "Concat", "Reshape"]


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


@pytest.mark.slow
@settings(max_examples=60)
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
        sizes: dict[tuple[int, ...], int] = {}
        for frames in itertools.product((0, 1), repeat=len(region.operators)):
            if cut_cost(region, frames).size_bytes >= NEVER:
                continue
            other = rebuilt(graph, number, frames)
            check_graph(other)
            assert_same(evaluate(other, inputs), before, graph.outputs)
            sizes[frames] = graph_cost(other).size_bytes
        best = best_frames(region)
        chosen = graph_cost(graph).size_bytes if best is None else sizes[tuple(best)]
        assert chosen == min(*sizes.values(), graph_cost(graph).size_bytes)


SIZES = (1, 2, 3, 7, 100, minimum_cut.UNLIMITED // 100)


@pytest.mark.parametrize("seed", range(20))
def test_a_search_and_scipy_agree(seed: int) -> None:
    drawn = random.Random(seed)
    count = drawn.randint(2, 30)
    pairs = {(drawn.randrange(count), drawn.randrange(count)) for _ in range(3 * count)} | {(0, 1)}
    edges = {(start, end): drawn.choice(SIZES) for start, end in pairs if start not in (1, end) and end != 0}
    assert minimum_cut.searched_sides(edges, count, 0, 1) == minimum_cut.scipy_sides(edges, count, 0, 1)


def test_more_edges_than_are_searched() -> None:
    """A chain with one edge that is narrower than the others: it alone is cut."""
    length = minimum_cut.FEW_EDGES + 2
    order = [0, *range(2, length), 1]
    edges = dict.fromkeys(itertools.pairwise(order), 5) | {(500, 501): 4}
    near_source, near_sink = minimum_cut.near_sides(edges, length, 0, 1)
    assert near_source == {0, *range(2, 501)}
    assert near_sink == {1, *range(501, length)}
