"""Which ways to execute a model tuning tries on a CPU."""

import math

import pytest

from farm.config.execution import Execution
from farm.farmrt.answers import CpuAnswer
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.tune.cpu_search import in_floats, operator_times, other_threads, step_ns
from runtime.lowering.builder import Builder
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.lowering.quantized_choice import choose_quantized, fused_in_bytes
from runtime.target import Target
from tests.native.test_quantized_convolution import CASES, network
from tests.native.test_quantized_operators import attention_network
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block
from tests.runtime.test_precisions import network as quantised_network

BEST = CpuChoice(valid_for="", block=8, winograd=frozenset())


def tried(cpu: CpuAnswer, given: Execution | None = None) -> list[int | str | None]:
    return [choice.affinity or choice.threads for choice in other_threads(given or Execution(), BEST, cpu)]


def test_fewer_threads_than_cores_are_tried_and_the_big_cores_alone() -> None:
    assert tried(CpuAnswer(cores=1)) == []
    assert tried(CpuAnswer(cores=2, max_khz=[2000, 2000])) == [1]
    assert tried(CpuAnswer(cores=8, max_khz=[1800] * 4 + [2400] * 4)) == [1, 2, 4, "big_only"]


def test_what_the_user_says_is_not_varied() -> None:
    assert tried(CpuAnswer(cores=8), Execution(num_threads=3)) == []
    assert tried(CpuAnswer(cores=8), Execution(cpu_affinity_policy="0-3")) == []


def test_a_quantised_model_is_tried_in_floats_too() -> None:
    graph, _ = network(CASES["1x1"])
    (choice,) = in_floats(graph, [BEST])
    assert choice.options == CpuOptions(8, {}, quantized=False)
    assert in_floats(residual_block(GraphMaker()), [BEST]) == []


def test_a_step_is_compared_with_all_that_it_computes() -> None:
    m = GraphMaker()
    x = m.conv(m.conv(m.input(1, 24, 6, 7), 24, k=1), 24, group=24)
    graph = m.finish(m.conv(x, 8, k=1))
    first, second, third = (node.name for node in graph.nodes)
    times = {first: 1.0, second: 2.0, third: 4.0}
    assert step_ns(graph, graph.nodes[2], times, {third: 5.0}) == 7.0
    assert step_ns(graph, graph.nodes[2], times, {first: 1.0, third: 5.0}) == 6.0
    assert step_ns(graph, graph.nodes[2], times, times) == 4.0


def test_an_operator_s_time_in_floats_has_its_rounding_and_conversions_are_by_element() -> None:
    graph, choice = quantised_network()
    plans = [
        lower(graph, Target("host", "host", memory="cpu", cpu_block=8), Options(cpu=CpuOptions(quantized=quantized)))
        for quantized in (True, False)
    ]
    times = [{step.name: 10.0 + plan for step in steps.steps} for plan, steps in enumerate(plans)]
    found = operator_times(graph, choice, plans[0], times)
    joined = [name for name, result in choice.nodes.items() if name != result]
    assert joined and all(found.in_floats[name] == 22.0 and found.in_bytes[name] == 10.0 for name in joined)
    (into, elements) = next(
        (step.name, math.prod(step.shown.output_shape))
        for step in plans[0].steps
        if step.kernel.name == "quantized_reorder" and step.note.endswith("eight bits")
    )
    assert into in times[0] and found.per_element[0] == pytest.approx(10.0 / elements)


def test_the_time_of_attention_in_floats_is_that_of_all_its_steps() -> None:
    network, _ = attention_network("rounded and scaled")
    target = Target("host", "host", memory="cpu", cpu_block=8)
    graph = fused_in_bytes(network, target, Options())
    choice = choose_quantized(Builder(graph, target, Options()), ())
    floats = {node.name: 1.0 for node in network.nodes}
    times = operator_times(graph, choice, lower(network, target), ({}, floats))
    (attention,) = (node for node in graph.nodes if node.op == "Attention")
    assert times.in_floats[attention.output] == len(network.nodes) - len(graph.nodes) + 1 == 9
