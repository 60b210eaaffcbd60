"""A trial plan holds each distinct launch once, and expects what the operator computes."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.graph import Graph
from runtime.lowering.lower import Options, lower
from runtime.lowering.trials import trial_plan
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
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
