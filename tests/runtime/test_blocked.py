"""Plans on blocked activations: what lies in blocks, and how often it is reordered."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import zoo
from runtime.convert import convert
from runtime.families.convolution.block_lowering import merged_groups
from runtime.families.movement.block_lowering import channel_runs
from runtime.graph import Graph
from runtime.layout.blocked import BLOCKS, blocked_shape, to_blocked
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.plan.plan import Plan
from runtime.target import Target, preferred_cpu_block
from runtime.types import Precision
from tests.opencl import EXHAUSTIVE
from tests.runtime.blocked_networks import aligned_concat, depthwise_chain, ghosts, inverted_residuals, winograd
from tests.runtime.graphs import GraphMaker
from tests.runtime.unpacked import from_blocked

CPU = Target("host", "host", memory="cpu")
each_block = pytest.mark.parametrize("block", BLOCKS)


def plan_of(graph: Graph, block: int = 8, **options: bool) -> Plan:
    return lower(graph, CPU, Options(cpu=CpuOptions(block), **options))


def kernels_of(plan: Plan) -> Mapping[str, int]:
    return collections.Counter(step.kernel.name for step in plan.steps)


ZOO = {name: zoo.describe(name).input_shape[-1] for name in zoo.names()[:7]}  # of convolutions
NETWORKS_OF_TURN = ZOO if EXHAUSTIVE else ("mobilenet_v2", "squeezenet_v11")  # sums, and joined branches


@pytest.mark.slow
@pytest.mark.parametrize(("name", "block"), [(name, block) for name in NETWORKS_OF_TURN for block in BLOCKS])
def test_networks_of_the_zoo_are_not_reordered_inside(name: str, block: int) -> None:
    """The first convolution reads the user's image as it lies, and what leaves is a row of numbers."""
    graph, _ = convert(zoo.build(name), input_shapes={"input": (1, 3, ZOO[name], ZOO[name])})
    found = kernels_of(plan_of(graph, block))
    assert found["reorder"] == 0
    assert found["conv2d"] == found["conv1x1"] == found["depthwise"] == found["pool"] == 0


@each_block
def test_a_first_convolution_reads_an_image_whose_channels_come_last(block: int) -> None:
    m = GraphMaker()
    plan = plan_of(m.finish(m.conv(m.add("Transpose", m.input(1, 9, 8, 3), perm=(0, 3, 1, 2)), 24)), block)
    assert (plan.steps[0].kernel.name, plan.steps[0].defines.get("FIRST")) == ("blocked_conv2d", 2)


@each_block
def test_an_image_of_the_user_is_reordered_once_on_either_side(block: int) -> None:
    m = GraphMaker()
    x = m.conv(m.conv(m.input(1, 20, 6, 6), 24), 24, group=24)
    plan = plan_of(m.finish(m.add("Relu", x)), block)
    assert [step.kernel.name for step in plan.steps if step.kernel.name == "reorder"] == ["reorder"] * 2
    assert {plan.steps[0].note, plan.steps[-1].note} == {"FLAT -> BLOCKED", "BLOCKED -> output"}


def test_operators_between_others_that_want_pixels_stay_with_them() -> None:
    """LRN knows no blocks: the pooling between two of them is not worth a conversion, that before a convolution is."""
    m = GraphMaker()
    lrn = {"size": 3, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    x = m.add("LRN", m.conv(m.input(1, 3, 12, 12), 24), **lrn)
    x = m.add("LRN", m.add("MaxPool", x, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4), **lrn)
    x = m.add("MaxPool", x, kernel=(2, 2), strides=(1, 1), pads=(1, 1, 1, 1))
    found = kernels_of(plan_of(m.finish(m.conv(m.add("Relu", x), 8))))
    assert (found["pool"], found["blocked_pool"], found["reorder"]) == (1, 1, 3)


def test_what_no_convolution_asks_for_stays_row_major() -> None:
    m = GraphMaker()
    x = m.add("Relu", m.input(1, 20, 6, 6))
    plan = plan_of(m.finish(m.add("Add", x, m.add("Sigmoid", x))))
    assert set(kernels_of(plan)) == {"unary", "binary"}


def test_parts_of_whole_blocks_are_written_in_place() -> None:
    plan = plan_of(aligned_concat(GraphMaker()), 16)
    assert kernels_of(plan)["copy"] == 0


def test_a_part_that_begins_with_a_block_is_written_in_place_whatever_follows() -> None:
    """Of the parts from channel 12, 24 and 44 on, that at 24 begins with a block of 8: the others are copied."""
    copied = {step.name.split(":")[1] for step in plan_of(ghosts(GraphMaker())).steps if step.kernel.name == "copy"}
    assert copied == {"1", "3"}


def test_a_convolution_to_few_channels_has_its_inputs_in_the_lanes() -> None:
    m = GraphMaker()
    x = m.conv(m.input(1, 3, 6, 6), 21)
    plan = plan_of(m.finish(*(m.conv(x, outputs, k=k) for outputs, k in ((4, 3), (3, 1), (5, 3)))))
    assert [step.defines.get("FEW") for step in plan.steps if step.kernel.name == "blocked_conv2d"][1:] == [1, 1, None]


@pytest.mark.parametrize("precision", [Precision.FP16_STORAGE, Precision.FP16])
def test_half_precision_changes_the_weights_and_direct_products_alone(precision: Precision) -> None:
    graph = aligned_concat(GraphMaker())
    floats, halves = plan_of(graph), lower(graph, dataclasses.replace(CPU, precision=precision))
    assert kernels_of(halves) == kernels_of(floats)
    for step in halves.steps:
        is_direct = step.kernel.name == "blocked_conv2d" and not step.defines.get("FIRST")
        is_product = is_direct or step.kernel.name == "blocked_winograd"
        assert step.defines.get("WEIGHT_BITS") == (16 if is_product else None)
        assert step.defines.get("HALF_SUMS") == (1 if is_direct and precision.computes_in_half else None)


def test_weights_beyond_half_stay_float() -> None:
    m = GraphMaker()
    graph = m.finish(m.conv(m.conv(m.input(1, 20, 6, 6), 24), 24))
    first = next(node.inputs[1] for node in graph.nodes)
    graph.constants[first] = graph.constants[first] * np.float32(1e6)
    steps = lower(graph, dataclasses.replace(CPU, precision=Precision.FP16_STORAGE)).steps
    assert [step.defines.get("WEIGHT_BITS") for step in steps if "conv" in step.kernel.name] == [None, 16]


def test_winograd_is_taken_where_it_pays_unless_tuning_says_no() -> None:
    graph = winograd(GraphMaker())
    assert kernels_of(plan_of(graph))["blocked_winograd"] == 1
    without = lower(graph, CPU, Options(cpu=CpuOptions(algorithms={})))
    assert kernels_of(without)["blocked_winograd"] == 0


def test_inverted_residuals_are_one_step_where_their_inner_tensors_are_large_unless_tuning_says_no() -> None:
    graph = inverted_residuals(GraphMaker())
    assert kernels_of(plan_of(graph))["blocked_separable"] == 2
    without = lower(graph, CPU, Options(cpu=CpuOptions(separable=())))
    assert kernels_of(without)["blocked_separable"] == 0


def test_what_is_read_elsewhere_is_a_step_of_its_own() -> None:
    graph = inverted_residuals(GraphMaker())
    assert "blocked_separable" not in kernels_of(plan_of(graph, keep=graph.layers))


@each_block
def test_a_convolution_is_part_of_one_step(block: int) -> None:
    """The 1x1 convolution between two depthwise ones could be a part of either's step."""
    graph = depthwise_chain(GraphMaker())
    every = CpuOptions(block, separable=[node.output for node in graph.nodes])
    plan = lower(graph, CPU, Options(cpu=every))
    assert kernels_of(plan)["blocked_separable"] == 2


def test_the_block_is_as_wide_as_vectors() -> None:
    assert preferred_cpu_block(("avx2", "avx512f")) == 16
    assert preferred_cpu_block(("asimd",)) == preferred_cpu_block(()) == 8


@pytest.mark.slow
@given(st.tuples(*[st.integers(1, 5)] * 4), st.sampled_from(BLOCKS))
def test_blocks_are_read_back(shape: tuple[int, int, int, int], block: int) -> None:
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    memory = to_blocked(data, block)
    assert memory.size == np.prod(blocked_shape(shape, block))
    np.testing.assert_array_equal(from_blocked(memory, shape, block), data)
    n, c, h, w = (size - 1 for size in shape)
    blocks = -(-shape[1] // block)
    at = (((n * blocks + c // block) * shape[2] + h) * shape[3] + w) * block + c % block
    assert memory[at] == data[n, c, h, w]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 90), st.sampled_from(BLOCKS))
def test_runs_cover_every_channel_once_within_a_block(x: int, y: int, count: int, block: int) -> None:
    runs = channel_runs(x, y, count, block)
    places = [
        at + block * index + lane for at, lanes, blocks in runs for index in range(blocks) for lane in range(lanes)
    ]
    assert sorted(places) == list(range(count))
    assert all((first + at) % block + lanes <= block for at, lanes, _ in runs for first in (x, y))
    assert len(runs) <= 4


def test_groups_are_merged_until_they_fill_blocks() -> None:
    assert merged_groups(32, 4, 4, 16) == 4
    assert merged_groups(32, 4, 4, 8) == 2
    assert merged_groups(1, 3, 5, 8) == 1
    assert merged_groups(2, 24, 24, 16) == 2
    assert merged_groups(32, 1, 2, 16) == 16
    assert merged_groups(24, 1, 2, 16) == 0
