"""A trial plan holds each distinct launch once, and expects what the operator computes."""

import dataclasses

import numpy as np
import pytest

from runtime.graph import Graph
from runtime.lowering.lower import Options, lower
from runtime.lowering.trials import trial_plan
from runtime.plan.encode import encode_plan
from runtime.plan.records import StepKind
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from runtime.types import Algorithm
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker

TARGET = target_of_device(default_device(), memory="buffer")


def network(name: str, repeated: int) -> Graph:
    maker = GraphMaker(name)
    x = maker.conv(maker.input(1, 3, 10, 9), 16, activation="relu")
    for _ in range(repeated):
        x = maker.conv(x, 16, residual=x, activation="relu")
    return maker.finish(maker.conv(x, 8, k=1, pads=(0,) * 4))


def test_equal_launches_of_several_models_are_one() -> None:
    trials = trial_plan([network("a", 3), network("b", 2)], TARGET)
    assert len({launch.key for launch in trials.launches}) == len(trials.launches)
    repeated = max(trials.launches, key=lambda launch: len(launch.uses))
    assert [use.model for use in repeated.uses].count("a") == 3
    assert [use.model for use in repeated.uses].count("b") == 2


def test_every_tunable_launch_of_a_model_is_there() -> None:
    graph = network("a", 1)
    keys = {step.tuning_key for step in lower(graph, TARGET).steps if step.tuning_key}
    assert {launch.key for launch in trial_plan([graph], TARGET).launches} == keys


@pytest.mark.slow
def test_expectations_are_what_the_operators_compute() -> None:
    trials = trial_plan([network("a", 1)], TARGET, Options(algorithms=(Algorithm.WINOGRAD_2,)))
    plan = trials.plan
    outputs = Executor(encode_plan(plan), plan.data, default_device()).run(trials.inputs)
    expected_steps = {expectation.step for expectation in plan.expectations}
    assert {launch.step for launch in trials.launches} <= expected_steps
    for expectation in plan.expectations:
        values = np.frombuffer(bytes(plan.data), np.float32, expectation.count, expectation.data_offset)
        actual = outputs[plan.tensors[expectation.tensor].name].reshape(-1)
        np.testing.assert_allclose(actual, values, atol=1e-4)
        assert expectation.check_step >= expectation.step
        assert plan.tensors[expectation.tensor].step == expectation.check_step


BUFFER = Target(soc="x", abi="y", max_work_item_sizes=(256, 256, 256))
TARGETS = {"buffer": BUFFER, "image": dataclasses.replace(BUFFER, memory="image")}


def trial_network(name: str = "net") -> tuple[GraphMaker, Graph]:
    m = GraphMaker(name)
    x = m.input(1, 16, 12, 12)
    a = m.conv(x, 16, activation="relu")
    b = m.conv(a, 16, group=16)
    c = m.conv(b, 16, group=16)
    d = m.conv(c, 24, k=1, pads=(0,) * 4)
    return m, m.finish(m.add("MaxPool", d, kernel=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0)))


@pytest.fixture(params=sorted(TARGETS))
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]


def test_every_tunable_launch_is_there_once_with_its_uses(target: Target) -> None:
    graphs = [trial_network("one")[1], trial_network("two")[1]]
    found = trial_plan(graphs, target)
    wanted = {step.tuning_key for step in lower(graphs[0], target).steps if step.tuning_key}
    used = {launch.key: launch for launch in found.launches if launch.uses}
    assert set(used) == wanted
    depthwise = [launch for launch in used.values() if launch.kernel.name == "depthwise"]
    assert [len(launch.uses) for launch in depthwise] == [4], "two in each model"


def test_a_check_runs_the_launches_own_operator_and_no_other(target: Target) -> None:
    plan = trial_plan([trial_network()[1]], target).plan
    assert plan.expectations
    for each in plan.expectations:
        operators = {name for step in plan.steps[each.step : each.check_step + 1] if (name := _operator(step.name))}
        assert len(operators) <= 1
        assert plan.tensors[each.tensor].step == each.check_step


def _operator(step: str) -> str:
    """The node of a step, empty for a conversion."""
    return step if step.count(":") == 1 else ""


@pytest.mark.slow
def test_expectations_are_what_the_operators_write() -> None:
    device = target_of_device(default_device(), memory="buffer")
    found = trial_plan([trial_network()[1]], device)
    outputs = Executor(encode_plan(found.plan), found.plan.data, default_device()).run(dict(found.inputs))
    expected = {each.tensor: each for each in found.plan.expectations}
    assert {found.plan.tensors[index].name for index in expected} == set(outputs)
    for index, each in expected.items():
        values = np.frombuffer(bytes(found.plan.data), np.float32, each.count, each.data_offset)
        np.testing.assert_allclose(outputs[found.plan.tensors[index].name].ravel(), values, rtol=0, atol=1e-4)


def test_global_size_covers_the_work_and_is_a_multiple_of_the_local_size() -> None:
    for launch in trial_plan([trial_network()[1]], BUFFER).launches:
        for variant in launch.kernel.variants:
            items = launch.work_items(variant)
            size = launch.global_size(variant, (3, 2, 1))
            assert all(have >= need for have, need in zip(size, items, strict=False))
            assert all(have % step == 0 for have, step in zip(size, (3, 2, 1)[: len(items)], strict=False))


def test_trials_take_the_options_of_the_lowering() -> None:
    found = trial_plan([trial_network()[1]], BUFFER, Options(algorithms=(Algorithm.WINOGRAD_2,)))
    assert "winograd_gemm" in {launch.kernel.name for launch in found.launches}
    assert all(step.kind == StepKind.OPENCL for step in found.plan.steps)
