"""Weights that are more than a GPU allocates at once: in parts, or read by the CPU alone, and right."""

import dataclasses
from pathlib import Path

import pytest

from runtime.errors import UnsupportedError
from runtime.lowering.choice import GraphChoice, NodeChoice, Place, graph_choice
from runtime.lowering.lower import Options, lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.records import PoolKind, StepKind
from runtime.semantics.generic_forms import gather_form
from runtime.target import Target
from tests.native.test_agreement import assert_close
from tests.native.test_examine import played
from tests.runtime.graphs import GraphMaker

pytestmark = [pytest.mark.opencl, pytest.mark.slow]
LIMIT_KB = 64
TARGET = Target("phone", "host", gpu_family="mali-bifrost", max_allocation_bytes=LIMIT_KB << 10)
GPU = f"mali-g72:max_allocation_mb={LIMIT_KB / 1024}"


def check(program: Path, folder: Path, maker: GraphMaker, target: Target, choice: GraphChoice | None = None) -> Plan:
    """Runs a graph on a played GPU that allocates no more, and returns its plan."""
    inputs, plan = maker.noise(), lower(maker.graph, target, Options(choice=choice))
    with played(program, folder, GPU) as farmrt:
        farmrt.run_loaded(farmrt.load_files(encode_plan(plan), plan.data), inputs, rounds=2)
        expected = evaluate(maker.graph, inputs)
        for name in maker.graph.outputs:
            assert_close(farmrt.output(name).reshape(expected[name].shape), expected[name], 2e-5)
    return plan


def layers() -> GraphMaker:
    """A convolution that adds and a product that multiplies, whose weights take more, with biases."""
    maker = GraphMaker()
    image, rows = maker.input(1, 64, 3, 5), maker.input(3, 64)
    wide = maker.conv(image, 300, 1, residual=maker.input(1, 300, 3, 5), activation="relu")
    weights = maker.weights(500, 64), maker.weights(500)
    return _finished(maker, wide, maker.add("FullyConnected", rows, *weights, "", maker.input(3, 500)))


def _finished(maker: GraphMaker, *outputs: str) -> GraphMaker:
    maker.finish(*outputs)
    return maker


@pytest.mark.parametrize("memory", ["buffer", "image"])
def test_a_layer_is_computed_in_parts(farmrt_program: Path, tmp_path: Path, memory: str) -> None:
    plan = check(farmrt_program, tmp_path, layers(), dataclasses.replace(TARGET, memory=memory))
    parts = [step.name for step in plan.steps if "/part" in step.name and step.op != "Slice"]
    assert len(parts) >= 4 and all(step.kind == StepKind.OPENCL for step in plan.steps)
    assert max(pool.size for pool in plan.pools) <= TARGET.max_allocation_bytes


@pytest.mark.parametrize("groups", [2, 4, 8], ids=["rows of a group", "a group", "groups"])
@pytest.mark.parametrize("memory", ["buffer", "image"])
def test_a_grouped_layer_is_computed_in_parts(farmrt_program: Path, tmp_path: Path, memory: str, groups: int) -> None:
    maker, residual = GraphMaker(), (1, 512, 3, 5)
    image = maker.input(1, 64 * groups, 3, 5)
    maker.finish(maker.conv(image, 512, 1, group=groups, residual=maker.input(*residual), activation="relu"))
    plan = check(farmrt_program, tmp_path, maker, dataclasses.replace(TARGET, memory=memory))
    parts = [step for step in plan.steps if step.op == "Conv2D"]
    assert len(parts) == {2: 4, 4: 4, 8: 3}[groups] and all(step.kind == StepKind.OPENCL for step in plan.steps)
    assert max(pool.size for pool in plan.pools) <= TARGET.max_allocation_bytes


@pytest.mark.parametrize("place", list(Place))
def test_a_kept_choice_holds_for_the_parts(farmrt_program: Path, tmp_path: Path, place: Place) -> None:
    """Which run where the layer was chosen to; on the CPU it stays whole."""
    maker = layers()
    places = {"Conv": place, "FullyConnected": Place.BUFFER if place == Place.IMAGE else place}
    choice = graph_choice(maker.graph, {node.output: NodeChoice(places[node.op]) for node in maker.graph.nodes})
    plan = check(farmrt_program, tmp_path, maker, dataclasses.replace(TARGET, allow_cpu=True), choice)
    parts = [step for step in plan.steps if "/part" in step.name and step.op == "Conv2D"]
    assert {str(step.kernel.memory) for step in parts} == ({str(place)} - {"cpu"})
    kinds = {step.kind for step in plan.steps if step.op in ("Conv2D", "FullyConnected")}
    assert kinds == {StepKind.CPU if place == Place.CPU else StepKind.OPENCL}


def test_weights_that_only_the_cpu_reads_may_be_larger(farmrt_program: Path, tmp_path: Path) -> None:
    maker = GraphMaker()
    table, words = maker.weights(600, 64), maker.input(2, 3, dtype="int32")
    rows = maker.add("IndexedRead", table, words, **gather_form((600, 64), (2, 3), 0))
    maker.finish(maker.add("FullyConnected", rows, maker.weights(32, 64)))
    plan = check(farmrt_program, tmp_path, maker, dataclasses.replace(TARGET, allow_cpu=True))
    assert max(pool.size for pool in plan.pools if pool.kind == PoolKind.WEIGHTS) > TARGET.max_allocation_bytes
    assert {step.kind for step in plan.steps} == {StepKind.CPU, StepKind.OPENCL}


def test_a_layer_that_has_no_parts_runs_on_the_cpu_and_says_why(farmrt_program: Path, tmp_path: Path) -> None:
    maker = GraphMaker()
    maker.finish(maker.conv(maker.input(1, 128, 3, 3), 128, 3, group=2))  # too large by its transformed filters
    with pytest.raises(UnsupportedError, match=r"the device allocates 65536 at most; .*cpu\+gpu has none for weights"):
        lower(maker.graph, TARGET)
    plan = check(farmrt_program, tmp_path, maker, dataclasses.replace(TARGET, allow_cpu=True))
    (step,) = (step for step in plan.steps if step.op == "Conv2D")
    assert step.note == "CPU: 'w' has 294912 bytes, the device allocates 65536 at most"
