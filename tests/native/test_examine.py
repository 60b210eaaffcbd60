"""`examine`: what farmrt finds of a device, right on drivers for CPUs, and each planted fault at its point."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.emulation.played_gpu import played_environment
from farm.jobs.opbench_cases import CASES
from runtime.kernels.table import KERNELS
from runtime.lowering.lower import lower
from runtime.plan.records import StepFlag
from runtime.target import Target
from runtime.types import Role
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, pool

pytestmark = pytest.mark.opencl

STEPS, COUNT = 5, 1000
ADRENO = Target("sdm845", "arm64-v8a", gpu_family="adreno")
ADD_WEIGHTS = """
kernel void add(global const float *from, global const float *weights, global float *to) {
    const int i = get_global_id(0);
    to[i] = from[i] + weights[i];
}
"""


def chain() -> PlanBuilder:
    """Steps that each add the weights to what the one before has written."""
    plan = PlanBuilder()
    weights, source = plan.weights(np.ones(COUNT, np.float32)), plan.program(ADD_WEIGHTS)
    pools = [plan.scratch(COUNT) for _ in range(STEPS + 1)]
    for before, after in itertools.pairwise(pools):
        plan.step("add", [pool(before), pool(weights), pool(after)], source, [COUNT])
    plan.tensor("x", Role.INPUT, pools[0], [COUNT])
    plan.tensor("y", Role.OUTPUT, pools[-1], [COUNT])
    return plan


@contextmanager
def played(program: Path, folder: Path, profile: str) -> Iterator[Farmrt]:
    with Farmrt(program, folder, variables=played_environment(profile)) as running:
        yield running


@pytest.mark.parametrize("point", ["clock", "launches", "zero_copy", "limits"])
def test_a_driver_for_cpus_is_what_it_says(gpu: Farmrt, point: str) -> None:
    answer = gpu.ask("examine", point=point, opencl=gpu.library)
    assert answer.pop("ok"), answer
    if point == "clock":
        assert (answer["reversed"], answer["empty"], answer["events"]) == (0, 0, 64)
        assert 0 < answer["events_ns"] <= answer["wall_ns"]
    elif point == "launches":
        assert not answer["needs_flush"] and answer["launch_ns"] > 0
        assert [window["every"] for window in answer["windows"]] == [0, 4, 16, 64]
    elif point == "zero_copy":
        assert answer in [{"outcome": outcome, "code_name": ""} for outcome in ("in place", "copied")]
    else:
        assert answer["allocation_bytes"] == answer["tried_allocation_bytes"] > 0
        assert min(answer["image_width"], answer["image_height"], *answer["group_items"]) >= 256


def test_a_point_that_is_none_and_one_that_is_missing_are_told(gpu: Farmrt) -> None:
    assert gpu.ask("examine", point="heat")["message"] == "examine: point: is not one of the known words"
    assert gpu.ask("examine")["message"] == "examine: point: is needed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "point", "found"),
    [
        ("adreno640:timestamps=reversed", "clock", {"reversed": 64}),
        ("adreno640:timestamps=zero", "clock", {"empty": 64, "events_ns": 0}),
        ("mali-g72", "clock", {"reversed": 0, "resolution_ns": 1000}),
        ("mali-g72", "launches", {"needs_flush": True}),
        ("adreno640", "launches", {"needs_flush": False}),
        ("adreno640", "zero_copy", {"outcome": "in place"}),
        ("mali-g72", "zero_copy", {"outcome": "copied"}),
        ("adreno640:host_ptr=fails_late", "zero_copy", {"outcome": "fails", "code_name": "CL_OUT_OF_RESOURCES"}),
        ("adreno640", "limits", {"group_items": [1024, 1024, 1024], "image_width": 16384}),
        ("powervr-ge8320", "limits", {"group_items": [512, 512, 512], "image_height": 8192}),
    ],
)
def test_a_played_gpu_shows_its_manners(
    farmrt_program: Path, tmp_path: Path, keys: str, point: str, found: dict[str, Any]
) -> None:
    with played(farmrt_program, tmp_path, keys) as farmrt:
        answer = farmrt.ask("examine", point=point)
    assert answer["ok"] and {key: answer[key] for key in found} == found


@pytest.mark.slow
def test_memory_that_is_not_there_is_found(farmrt_program: Path, tmp_path: Path) -> None:
    with played(farmrt_program, tmp_path, "adreno640:memory_mb=64") as farmrt:
        answer = farmrt.ask("examine", point="limits")
    assert answer["tried_allocation_bytes"] == 256 << 20 and 60 << 20 < answer["allocation_bytes"] <= 64 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "records", "is_faster"),
    [("adreno640", True, True), ("adreno640:recordings=refused", True, False), ("mali-g72", False, False)],
)
def test_launches_are_recorded_once_where_the_driver_can(
    farmrt_program: Path, tmp_path: Path, keys: str, records: bool, is_faster: bool
) -> None:
    """From the second round on; a round whose steps are timed, and a driver that refuses, have them one by one."""
    values = np.arange(COUNT, dtype=np.float32)
    slow = f"{keys}{',' if ':' in keys else ':'}pace=yes,launch_us=20000,recording_us=1,recorded_us=1"
    with played(farmrt_program, tmp_path, slow) as farmrt:
        loaded = farmrt.load(chain(), record=1)
        assert loaded["ok"] and loaded["record"] is records
        farmrt.input("x", values)
        first, second, third = (ns / 20e6 for ns in farmrt.done("run", rounds=3)["wall_ns"])
        assert first >= STEPS and (max(second, third) < STEPS / 2) is is_faster
        np.testing.assert_array_equal(farmrt.output("y"), values + STEPS)
        timed = farmrt.done("run", rounds=1, profile=1)
        assert len(timed["steps"]) == STEPS and timed["wall_ns"][0] / 20e6 >= STEPS
        assert farmrt.done("run", rounds=1)["wall_ns"][0] / 20e6 < STEPS / 2 or not is_faster
        np.testing.assert_array_equal(farmrt.output("y"), values + STEPS)
        farmrt.input("x", values + 1)
        farmrt.done("run", rounds=1)
        np.testing.assert_array_equal(farmrt.output("y"), values + 1 + STEPS)


ONE_GROUP = """
kernel void strides(global const float *from, global float *to) {
    for (int i = get_local_id(0); i < 1000; i += get_local_size(0)) {
        to[1000 * get_global_id(1) + i] = get_num_groups(0) == 1 ? from[i] + get_local_size(0) : -1;
    }
}
"""


@pytest.mark.slow
def test_a_dimension_that_is_one_group_shrinks_to_what_the_kernel_allows(farmrt_program: Path, tmp_path: Path) -> None:
    """To 32 work items of 128 here; a step that says nothing of it is refused, since its items may need each other."""
    values = np.arange(COUNT, dtype=np.float32)
    for flags in (StepFlag.ONE_GROUP, StepFlag(0)):
        plan = PlanBuilder()
        source, target = plan.scratch(COUNT), plan.scratch(2 * COUNT)
        plan.step("strides", [pool(source), pool(target)], plan.program(ONE_GROUP), [128, 2], [128, 1], flags=flags)
        plan.tensor("x", Role.INPUT, source, [COUNT])
        plan.tensor("y", Role.OUTPUT, target, [2, COUNT])
        with played(farmrt_program, tmp_path, "mali-g52:registers_kb=1") as farmrt:
            loaded = farmrt.load(plan)
            if not flags:
                assert "the kernel's limit is 32" in loaded["message"]
                continue
            assert loaded["ok"] and loaded["smaller_groups"] == 1
            farmrt.input("x", values)
            farmrt.done("run", rounds=1)
            np.testing.assert_array_equal(farmrt.output("y"), np.tile(values + 32, 2))


def test_the_kernel_of_a_recurrent_layer_says_that_a_sequence_is_one_group() -> None:
    layer = next(case for case in CASES if case.op == "RNN")
    (step,) = (each for each in lower(layer.graph(), ADRENO).steps if each.kernel.name == "recurrent_sequence")
    assert step.flags & StepFlag.ONE_GROUP and not step.flags & StepFlag.SPLITTABLE
    assert step.global_size[0] == step.local_size[0] > 1 and step.local_size[1] == 1


def test_every_kernel_of_ours_runs_in_smaller_groups_than_planned() -> None:
    """Any group is right; of the work items that share a sum there are fewer where their kernel allows no more."""
    for kernel in KERNELS:
        for variant in kernel.variants:
            shares = variant.get("LANES", 1) > 1 or kernel.name == "recurrent_sequence"
            assert kernel.one_group(variant) == shares and (kernel.splittable or shares), kernel.name


@pytest.mark.slow
def test_what_a_recorded_launch_costs_is_measured(farmrt_program: Path, tmp_path: Path) -> None:
    with played(farmrt_program, tmp_path, "adreno640:pace=yes,launch_us=1000,recorded_us=1") as farmrt:
        answer = farmrt.ask("examine", point="launches")
    assert 0 < answer["recorded_ns"] < 0.5 * answer["launch_ns"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "words", "told"),
    [
        ("mali-g72", {}, (16, False)),
        ("mali-g72", {"flush_every": 4}, (4, False)),
        ("mali-g72", {"flush_every": "never"}, (0, False)),
        ("powervr-ge8320", {}, (16, False)),
        ("mali-g78:loader=pixel", {}, (16, False)),
        ("adreno640", {}, (0, False)),
        ("adreno640", {"flush_every": 2, "zero_copy": 1}, (2, True)),
        ("mali-g72:timestamps=reversed", {"host_times": 1}, (16, False)),
        ("mali-g72:profiling=hangs", {"host_times": 1}, (16, False)),
    ],
)
def test_a_plan_is_right_however_the_device_is_used(
    farmrt_program: Path, tmp_path: Path, profile: str, words: dict[str, Any], told: tuple[int, bool]
) -> None:
    """Also a plan whose launches are timed on a GPU that hangs where they are timed by events."""
    values = np.arange(COUNT, dtype=np.float32)
    with played(farmrt_program, tmp_path, profile) as farmrt:
        loaded = farmrt.load(chain(), **words)
        assert loaded["ok"] and (loaded["flush_every"], loaded["zero_copy"]) == told
        farmrt.input("x", values)
        answer = farmrt.done("run", rounds=2, profile=1)
        assert len(answer["steps"]) == STEPS and answer["by_host"] == ("host_times" in words)
        np.testing.assert_array_equal(farmrt.output("y"), values + STEPS)
