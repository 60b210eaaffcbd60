"""farmrt and the reference executor agree on every plan: both memory types, both precisions, on each OpenCL driver.

Every network runs in both memory types, with a precision and a driver in turns, so that any two networks in a row meet
both precisions in either memory; FARM_EXHAUSTIVE=1 runs all of them on every driver. The loader, which hands calls on
to the system's driver, has its tests elsewhere. CPU plans, which the reference does not execute, are
held against NumPy.
"""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.convert import convert
from runtime.graph import Array, Graph, in_element_type
from runtime.importers.onnx_importer import import_onnx
from runtime.kernels.spec import Variant
from runtime.layout.blocked import BLOCKS
from runtime.lowering.choice import graph_choice
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.lowering.trials import TrialLaunch, trial_plan
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.selection.costs import cost_key
from runtime.selection.listing import find_candidates
from runtime.selection.trials import candidate_plan, nodes_with
from runtime.target import Target
from runtime.types import EVERY_ALGORITHM, Precision
from tests import opencl
from tests.native.conftest import THOROUGH
from tests.native.farmrt import Farmrt
from tests.runtime.blocked_networks import NETWORKS as BLOCKED_NETWORKS
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import (
    NETWORKS,
    attended,
    concat_in_place,
    dense_chain,
    group_normalised,
    hidden_keys,
    residual_block,
)
from tests.runtime.onnx_models import NEAREST_RESIZES, inputs_of, nearest_resizes, run_onnxruntime
from tests.runtime.random_graphs import random_graphs, sliced_graphs
from tests.runtime.transformers import FORMS, Form, causal_block, encoder_block, vision_transformer
from tuner.trial import TINY_ERROR, TOLERANCE

SETTINGS: dict[str, dict[str, Any]] = {
    "buffer-fp32": {"memory": "buffer"},
    "buffer-fp16": {"memory": "buffer", "precision": Precision.FP16_STORAGE},
    "image-fp32": {"memory": "image"},
    "image-fp16": {"memory": "image", "precision": Precision.FP16_STORAGE},
}
CPU = Target("host", "host", memory="cpu")
NetworkMaker = Callable[[GraphMaker], Graph]
each_network = pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
on_each_driver = pytest.mark.parametrize("gpu", list(THOROUGH), indirect=True)


def by_turns() -> list[Any]:
    """(driver, network, settings)."""
    cases = itertools.product(enumerate(NETWORKS), enumerate(SETTINGS))
    turns = [
        (network, name, opencl.of_turn(n + s // 2))
        for (n, network), (s, name) in cases
        if opencl.EXHAUSTIVE or (n + s + s // 2) % 2 == 0
    ]
    return [
        pytest.param(label, network, SETTINGS[name], id=f"{label}-{network.__name__}-{name}")
        for network, name, drivers in turns
        for label in map(opencl.label, drivers)
    ]


def device_of(farmrt: Farmrt) -> Any:
    """pyopencl's device on the driver that this farmrt uses."""
    return opencl.open_once(farmrt.library)


def run_on(farmrt: Farmrt, plan: Plan, inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a second round: the first, of NaN, leaves nothing in memory that could be taken for the right."""
    answer = farmrt.load_files(encode_plan(plan), plan.data)
    assert answer["ok"], answer
    for round_inputs in ({name: np.full_like(values, np.nan) for name, values in inputs.items()}, inputs):
        for name, values in round_inputs.items():
            farmrt.input(name, values)
        farmrt.done("run")
    return {tensor.name: farmrt.output(tensor.name).reshape(tensor.shape) for tensor in plan.outputs}


def assert_close(actual: Array, expected: Array, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("network", BLOCKED_NETWORKS, ids=lambda network: network.__name__)
def test_blocked_plans_compute_the_graph(cpu: Farmrt, network: NetworkMaker, block: int) -> None:
    maker = GraphMaker()
    graph = network(maker)
    inputs = maker.noise()
    expected = evaluate(graph, inputs)
    joined = CpuOptions(block, separable=[node.output for node in graph.nodes])  # in one step wherever that is possible
    for options in (
        Options(cpu=CpuOptions(block)),
        Options(cpu=CpuOptions(block), keep=graph.layers),
        Options(cpu=joined),
    ):
        plan = lower(graph, CPU, options)
        assert any(step.kernel.name.startswith("blocked_") for step in plan.steps)
        for name, values in run_on(cpu, plan, inputs).items():
            assert_close(values, expected[name], 2e-5)


def assert_half_weights_are_those_of_the_graph(cpu: Farmrt, graph: Graph, inputs: dict[str, Array], block: int) -> None:
    """A graph whose weights are halves is computed as exactly with half of the bytes."""
    for name, values in graph.constants.items():
        if values.dtype == np.float32:
            graph.constants[name] = in_element_type(values, np.float16).astype(np.float32)
    expected = evaluate(graph, inputs)
    target, options = dataclasses.replace(CPU, precision=Precision.FP16_STORAGE), CpuOptions(block, algorithms={})
    for name, values in run_on(cpu, lower(graph, target, Options(cpu=options)), inputs).items():
        assert_close(values, expected[name], 2e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_weights_in_half_compute_the_graph(cpu: Farmrt, network: NetworkMaker) -> None:
    maker = GraphMaker()
    graph = network(maker)
    assert_half_weights_are_those_of_the_graph(cpu, graph, maker.noise(), 8)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=random_graphs() | sliced_graphs(), block=st.sampled_from(BLOCKS))
def test_random_graphs_compute_the_same_of_half_weights(
    cpu: Farmrt, case: tuple[Graph, GraphMaker], block: int
) -> None:
    graph, make = case
    assert_half_weights_are_those_of_the_graph(cpu, graph, make.noise(), block)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=random_graphs() | sliced_graphs(), block=st.sampled_from(BLOCKS), joined=st.booleans())
def test_random_graphs_compute_the_same_on_the_cpu(
    cpu: Farmrt, case: tuple[Graph, GraphMaker], block: int, joined: bool
) -> None:
    graph, make = case
    inputs = make.noise()
    expected = evaluate(graph, inputs)
    options = CpuOptions(block, separable=[node.output for node in graph.nodes] if joined else None)
    for name, values in run_on(cpu, lower(graph, CPU, Options(cpu=options)), inputs).items():
        assert_close(values, expected[name], 2e-5)


@pytest.mark.slow
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=sliced_graphs(), memory=st.sampled_from(["buffer", "image"]))
def test_slices_of_slices_compute_the_same_on_the_gpu(gpu: Farmrt, case: tuple[Graph, GraphMaker], memory: str) -> None:
    graph, make = case
    inputs = make.noise()
    expected = evaluate(graph, inputs)
    plan = lower(graph, target_of_device(device_of(gpu), memory=memory))
    for name, values in run_on(gpu, plan, inputs).items():
        assert_close(values, expected[name], 2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("inner", [1, 3])
def test_a_sum_of_millions_keeps_what_comes_last(cpu: Farmrt, inner: int) -> None:
    """A single sum in float32 is off by a tenth."""
    count = 1 << 24
    make = GraphMaker()
    total = make.add("ReduceSum", make.input(1, count, inner), axes=(1,), keepdims=True)
    outputs = run_on(cpu, lower(make.finish(total), CPU), {"x0": np.full((1, count, inner), 0.1, np.float32)})
    np.testing.assert_allclose(outputs[total], 0.1 * count, rtol=1e-4)


@pytest.mark.parametrize("count", [63, 64, 200])
def test_a_cpu_reduces_neighbours_whatever_their_number(cpu: Farmrt, count: int) -> None:
    """It combines 64 at once; the greatest and the least are among the last ones, and a NaN is both."""
    values = np.random.default_rng(1).normal(size=(3, count)).astype(np.float32)
    values[0, -2:], values[1, 0] = (9, -9), np.nan
    for op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum"):
        make = GraphMaker()
        graph = make.finish(make.add(op, make.input(3, count), axes=(1,), keepdims=True))
        expected = evaluate(graph, {"x0": values})[graph.outputs[0]]
        assert_close(run_on(cpu, lower(graph, CPU), {"x0": values})[graph.outputs[0]], expected, 2e-5)


@pytest.mark.parametrize("size", NEAREST_RESIZES, ids=str)
def test_cpu_takes_the_pixels_of_every_nearest_mode(cpu: Farmrt, size: tuple[int, int]) -> None:
    model = nearest_resizes(size, NEAREST_RESIZES[size])
    graph = import_onnx(model)
    inputs = inputs_of(graph)
    outputs = run_on(cpu, lower(graph, CPU), inputs)
    for name, expected in zip(graph.outputs, run_onnxruntime(model, inputs), strict=True):
        np.testing.assert_array_equal(outputs[name], expected, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "network", "settings"), by_turns(), indirect=["gpu"])
def test_farmrt_agrees_with_the_reference(gpu: Farmrt, network: NetworkMaker, settings: dict[str, Any]) -> None:
    maker, device = GraphMaker(), device_of(gpu)
    target = target_of_device(device, **settings)
    plan = lower(network(maker), target)
    inputs = maker.noise()
    expected = Executor(encode_plan(plan), plan.data, device).run(inputs)
    for name, values in run_on(gpu, plan, inputs).items():
        tolerance = 2e-5 if target.precision == Precision.FP32 else 2e-3
        np.testing.assert_allclose(
            values, expected[name], rtol=0, atol=tolerance * max(1, np.abs(expected[name]).max())
        )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_query_whose_keys_are_all_hidden_gives_0(gpu: Farmrt, settings: dict[str, Any]) -> None:
    """And a mask beyond the range of half still hides."""
    maker = GraphMaker()
    graph, inputs = hidden_keys(maker), maker.noise()
    expected = evaluate(graph, inputs)
    outputs = run_on(gpu, lower(graph, target_of_device(device_of(gpu), **settings)), inputs)
    assert (outputs[graph.outputs[0]][:, 3] == 0).all()
    for name, values in outputs.items():
        assert_close(values, expected[name], 2e-3)


MIXED = (Precision.FP32, Precision.FP16_STORAGE)


def mixed_by_turns() -> list[Any]:
    """(driver, network, seed)."""
    cases = itertools.product([residual_block, concat_in_place, dense_chain], range(4))
    return [
        pytest.param(opencl.label(driver), network, seed, id=f"{opencl.label(driver)}-{network.__name__}-{seed}")
        for number, (network, seed) in enumerate(cases)
        if opencl.EXHAUSTIVE or number % 2 == 0
        for driver in opencl.of_turn(number // 2)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "network", "seed"), mixed_by_turns(), indirect=["gpu"])
def test_mixed_plans_agree_with_the_reference(gpu: Farmrt, network: NetworkMaker, seed: int) -> None:
    """Any node in any place, algorithm and precision, whatever its neighbours have."""
    maker, device, random = GraphMaker(), device_of(gpu), np.random.default_rng(seed)
    graph, target = network(maker), target_of_device(device)
    options = Options(algorithms=EVERY_ALGORITHM)
    candidates = find_candidates(graph, target, options, MIXED)
    choices = {node.output: candidates.choices(node) for node in graph.nodes}
    nodes = {name: found[random.integers(len(found))] for name, found in choices.items()}
    options = dataclasses.replace(options, choice=graph_choice(graph, nodes))
    plan = lower(graph, dataclasses.replace(target, precision=max(MIXED)), options)
    assert plan.precisions == MIXED
    inputs = maker.noise()
    reference, expected = Executor(encode_plan(plan), plan.data, device).run(inputs), evaluate(graph, inputs)
    for name, values in run_on(gpu, plan, inputs).items():
        assert_close(values, reference[name], 2e-3)
        assert_close(values, expected[name], 2e-2)


@pytest.mark.slow
@on_each_driver
def test_trials_in_several_precisions_are_checked(gpu: Farmrt) -> None:
    """Poisoned before each launch by the size of its own elements, so that no other tensor is hit."""
    maker = GraphMaker()
    graph, target = residual_block(maker), target_of_device(device_of(gpu), precision=max(MIXED))
    candidates = find_candidates(graph, target, Options(), MIXED)
    keys = dict.fromkeys(map(cost_key, candidates.launches()))
    trials = candidate_plan(nodes_with(keys, candidates), target, Options()).trials
    run_on(gpu, trials.plan, dict(trials.inputs))
    assert {launch.precision for launch in trials.launches} == set(MIXED)
    for launch in trials.launches:
        size = ",".join(map(str, launch.global_size(launch.variant, (2, 1, 1))))
        sizes = {"global": size, "local": "2,1,1", "block": launch.block(launch.variant)}
        answer = gpu.done("trial", step=launch.step, reps=1, check=1, options=launch.options(launch.variant), **sizes)
        assert answer["nan_count"] == 0, launch.key
        allowed = TOLERANCE[launch.tolerance] * answer["max_abs_expected"] + TINY_ERROR
        assert answer["max_abs_error"] <= allowed, (launch.key, launch.tolerance)


@pytest.mark.slow
@each_network
@pytest.mark.parametrize("library", THOROUGH.values(), ids=THOROUGH)
def test_networks_in_half_arithmetic_are_right_where_a_driver_has_it(
    library: str, farmrt_program: Path, tmp_path: Path, network: NetworkMaker
) -> None:
    target = target_of_device(opencl.open_once(library), memory="buffer", precision=Precision.FP16)
    if not target.fp16:
        pytest.skip("no half arithmetic")
    maker = GraphMaker()
    graph = network(maker)
    inputs = maker.noise()
    expected = evaluate(graph, inputs)
    with Farmrt(farmrt_program, tmp_path, library=library) as gpu:
        for name, values in run_on(gpu, lower(graph, target), inputs).items():
            assert_close(values, expected[name], TOLERANCE[Precision.FP16])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [encoder_block, causal_block, vision_transformer], ids=lambda make: make.__name__)
def test_a_transformer_on_the_cpu_computes_what_onnxruntime_computes(
    cpu: Farmrt, make: Callable[[Form], onnx.ModelProto], form: Form
) -> None:
    model = make(form)
    graph, _ = convert(model)
    inputs = inputs_of(graph)
    plan = lower(graph, CPU)
    assert {step.kernel.name for step in plan.steps} >= {"normalization", "attention"}
    (expected,) = run_onnxruntime(model, inputs)
    assert_close(run_on(cpu, plan, inputs)[graph.outputs[0]], expected, 2e-5)


@each_network
def test_cpu_operators_compute_the_graph(cpu: Farmrt, network: NetworkMaker) -> None:
    maker = GraphMaker()
    graph = network(maker)
    inputs = maker.noise()
    expected = evaluate(graph, inputs)
    plan = lower(graph, CPU, Options(keep=graph.layers))
    for name, values in run_on(cpu, plan, inputs).items():
        assert_close(values, expected[name], 2e-5)


def trials_by_turns() -> list[Any]:
    """(driver, network, memory)."""
    cases = itertools.product([residual_block, group_normalised, attended], ["buffer", "image"])
    return [
        pytest.param(opencl.label(driver), network, memory, id=f"{opencl.label(driver)}-{network.__name__}-{memory}")
        for number, (network, memory) in enumerate(cases)
        for driver in opencl.of_turn(number)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "network", "memory"), trials_by_turns(), indirect=["gpu"])
def test_every_variant_of_a_trial_plan_is_right(gpu: Farmrt, network: NetworkMaker, memory: str) -> None:
    """Two variants of a kernel tell enough of farmrt's part in a trial: the tests of kernels run all of them."""
    target = target_of_device(device_of(gpu), memory=memory)
    trials = trial_plan([network(GraphMaker())], target)
    run_on(gpu, trials.plan, dict(trials.inputs))
    cases = [(launch, variant) for launch in trials.launches for variant in some_variants(launch, target)]
    assert cases
    for launch, variant in cases:
        answer = gpu.done(
            "trial",
            step=launch.step,
            reps=1,
            check=1,
            options=launch.options(variant),
            **{"global": ",".join(map(str, launch.global_size(variant, (2, 1, 1)))), "local": "2,1,1"},
            block=launch.block(variant),
        )
        assert answer["nan_count"] == 0
        assert answer["max_abs_error"] <= 1e-4 * max(1, answer["max_abs_expected"]), (launch.key, variant.name)


def some_variants(launch: TrialLaunch, target: Target) -> list[Variant]:
    """The variants that fit: all of them if exhaustive, else the first and the last one."""
    fitting = [each for each in launch.kernel.variants if not launch.kernel.fits(launch.dims, each, target)]
    return fitting if opencl.EXHAUSTIVE else list(dict.fromkeys((*fitting[:1], *fitting[-1:])))
