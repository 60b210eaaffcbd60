"""Trial plans of candidates hold the launches that are asked for, each with what it must write."""

import dataclasses

import numpy as np
import pytest

from runtime.graph import Graph
from runtime.lowering.choice import GraphChoice, NodeChoice, Place, graph_hash
from runtime.lowering.lower import lower
from runtime.lowering.options import Options
from runtime.lowering.trials import trial_plan
from runtime.selection.costs import cost_key
from runtime.selection.listing import find_candidates
from runtime.selection.trials import candidate_plan, nodes_with
from runtime.target import Target
from runtime.types import EVERY_ALGORITHM, Precision
from tests.runtime.graphs import GraphMaker

TARGET = Target("x", "x", gpu_family="adreno-6xx")


def net() -> Graph:
    maker = GraphMaker()
    x = maker.conv(maker.input(1, 8, 12, 12), 16)
    pooled = maker.add("MaxPool", x, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0))
    return maker.finish(maker.conv(pooled, 8, k=1))


def test_every_launch_of_every_candidate_can_be_timed() -> None:
    """Conversions between buffers and images among them, which no plan of one memory type has."""
    candidates = find_candidates(net(), TARGET, Options(algorithms=EVERY_ALGORITHM))
    keys = list(dict.fromkeys(map(cost_key, candidates.launches())))
    plan = candidate_plan(nodes_with(keys, candidates), TARGET, Options())
    assert set(keys) <= plan.keys
    checked = {expectation.step for expectation in plan.trials.plan.expectations}
    assert {launch.step for launch in plan.trials.launches} <= checked and plan.untuned
    kernels = {step.kernel.name for step in plan.untuned}
    assert {"buffer_to_image", "image_to_buffer"} <= kernels


def test_every_launch_of_every_precision_can_be_timed() -> None:
    """Conversions between float and half among them, in each storage and between storages."""
    precisions = (Precision.FP32, Precision.FP16_STORAGE)
    candidates = find_candidates(net(), TARGET, Options(algorithms=EVERY_ALGORITHM), precisions)
    keys = list(dict.fromkeys(map(cost_key, candidates.launches())))
    target = dataclasses.replace(TARGET, precision=max(precisions))
    plan = candidate_plan(nodes_with(keys, candidates), target, Options())
    assert set(keys) <= plan.keys
    casts = {step.kernel.name for step in plan.trials.plan.steps if step.op == "ImageToImage"}
    assert casts == {"unary"}
    told = {(launch.precision, launch.tolerance) for launch in plan.trials.launches}
    assert (Precision.FP32, Precision.FP32) in told and (Precision.FP16_STORAGE, Precision.FP16_STORAGE) in told
    assert all(launch.tolerance >= launch.precision for launch in plan.trials.launches)
    for values in plan.trials.inputs.values():
        np.testing.assert_array_equal(values, values.astype(np.float16), err_msg="half holds the noise")


def test_few_nodes_serve_few_keys() -> None:
    candidates = find_candidates(net(), TARGET)
    keys = list(dict.fromkeys(map(cost_key, candidates.launches())))
    assert nodes_with([], candidates) == [] == nodes_with(["nothing"], candidates)
    (node,) = nodes_with(keys[:1], candidates)
    assert keys[0] in candidate_plan([node], TARGET, Options()).keys
    assert len(nodes_with(keys, candidates)) <= len(keys)


def test_what_brings_the_inputs_of_a_trial_into_place_is_not_timed() -> None:
    """On buffers of a CPU, channels lie last: what brings the noise there is no launch of the network."""
    target = Target("x", "x", gpu_family="pocl-3.1")
    candidates = find_candidates(net(), target)
    brought = 0
    for node in nodes_with(map(cost_key, candidates.launches()), candidates):
        plan = candidate_plan([node], target, Options())
        assert plan.keys == node.keys
        brought += sum(bool(step.tuning_key) for step in plan.trials.plan.steps) > len(plan.trials.launches)
    assert brought, "else nothing is shown"


def test_cpu_steps_are_told_from_launches() -> None:
    target = dataclasses.replace(TARGET, allow_cpu=True)
    candidates = find_candidates(net(), target)
    keys = dict.fromkeys(map(cost_key, candidates.launches()))
    plan = candidate_plan(nodes_with(keys, candidates), target, Options())
    assert any(step.on_cpu for step in plan.untuned) and set(keys) <= plan.keys


@pytest.mark.parametrize("place", [Place.BUFFER, Place.IMAGE])
def test_the_trial_plan_of_a_chosen_graph_has_its_launches(place: Place) -> None:
    graph = net()
    choice = GraphChoice({node.output: NodeChoice(place) for node in graph.nodes}, graph_hash(graph))
    options = Options(choice=choice)
    used = {step.tuning_key for step in lower(graph, TARGET, options).steps if step.tuning_key}
    trials = trial_plan([graph], TARGET, options)
    assert {launch.key for launch in trials.launches if launch.uses} >= {key for key in used if "conv" in key}
    assert {launch.kernel.memory for launch in trials.launches if "conv" in launch.key} == {place.value}
    assert all(np.isfinite(values).all() for values in trials.inputs.values())
