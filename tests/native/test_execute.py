"""Plans with OpenCL kernels, on every driver."""

from pathlib import Path

import numpy as np
import pytest

from runtime.types import Role
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, image, integer, number, pool

pytestmark = pytest.mark.opencl

AXPY = """
kernel void axpy(global const float *x, global const float *w, global float *y, int count, float scale) {
    int i = get_global_id(0);
    if (i < count) y[i] = x[i] * scale + w[i] + SHIFT;
}
"""
IMAGE = """
kernel void pour(global const float *x, write_only image2d_t out, int width) {
    int i = get_global_id(0);
    write_imagef(out, (int2)(i % width, i / width), vload4(i, x));
}
kernel void drain(read_only image2d_t in, read_only image2d_t bias, global float *y, int width) {
    const sampler_t plain = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    int i = get_global_id(0);
    int2 at = (int2)(i % width, i / width);
    vstore4(read_imagef(in, plain, at) + read_imagef(bias, plain, at), i, y);
}
"""
COUNT = 100


def axpy_plan(size: int = 128, local: int = 32) -> tuple[PlanBuilder, np.ndarray]:
    """y = 2x + w + 1, then z = 0.5y + w + 1, in one pool; returns w too."""
    plan = PlanBuilder()
    w = np.arange(COUNT, dtype=np.float32)
    weights, scratch_x, scratch_y = plan.weights(w), plan.scratch(COUNT), plan.scratch(COUNT)
    program = plan.program(AXPY, "-DSHIFT=1")
    first = [pool(scratch_x), pool(weights), pool(scratch_y), integer(COUNT), number(2)]
    second = [pool(scratch_y), pool(weights), pool(scratch_y), integer(COUNT), number(0.5)]
    plan.step("axpy", first, program, [size], [local])
    last = plan.step("axpy", second, program, [size], [local])
    plan.tensor("x", Role.INPUT, scratch_x, [4, 25])
    plan.tensor("z", Role.OUTPUT, scratch_y, [COUNT], step=last)
    return plan, w


def test_buffers(gpu: Farmrt) -> None:
    plan, w = axpy_plan()
    answer = gpu.load(plan)
    assert answer["ok"], answer
    assert answer["inputs"] == [{"name": "x", "shape": [4, 25]}]
    assert answer["kernels"]["built"] == 1
    assert answer["memory"] == {"scratch_bytes": 800, "weights_bytes": 656, "images_bytes": 0}
    x = np.linspace(-1, 1, COUNT, dtype=np.float32)
    gpu.input("x", x)
    run = gpu.done("run", rounds=3, warmup=1)
    assert len(run["wall_ns"]) == 3
    assert len(run["warmup_ns"]) == 1
    assert run["first_ms"] == pytest.approx(run["warmup_ns"][0] / 1e6)
    np.testing.assert_allclose(gpu.output("z"), (2 * x + w + 1) * 0.5 + w + 1, rtol=1e-6)
    assert gpu.done("run")["first_ms"] is None


def test_images(gpu: Farmrt) -> None:
    plan = PlanBuilder()
    bias = np.arange(6 * 2 * 4, dtype=np.float32)
    x = np.linspace(0, 1, 48, dtype=np.float32)
    source, target = plan.scratch(48), plan.scratch(48)
    middle, constant = plan.image(6, 2), plan.image(6, 2, bias)
    program = plan.program(IMAGE)
    plan.step("pour", [pool(source), image(middle), integer(6)], program, [12])
    last = plan.step("drain", [image(middle), image(constant), pool(target), integer(6)], program, [12])
    plan.tensor("x", Role.INPUT, source, [48])
    plan.tensor("y", Role.OUTPUT, target, [48], step=last)
    assert gpu.load(plan)["ok"]
    gpu.input("x", x)
    gpu.done("run")
    np.testing.assert_allclose(gpu.output("y"), x + bias, rtol=1e-6)


@pytest.mark.slow
def test_profile_adds_up(gpu: Farmrt) -> None:
    plan, _ = axpy_plan()
    assert gpu.load(plan)["ok"]
    run = gpu.done("run", rounds=4, warmup=2, profile=1)
    assert [len(step["ns"]) for step in run["steps"]] == [4, 4]
    assert run["steps"][0]["start_ns"] == 0 < run["steps"][1]["start_ns"]
    for index, wall in enumerate(run["wall_ns"]):
        assert 0 < sum(step["ns"][index] for step in run["steps"]) < wall


@pytest.mark.slow
def test_build_failure_names_the_call_and_leaves_none(gpu: Farmrt) -> None:
    broken = PlanBuilder()
    scratch = broken.scratch(16)
    broken.step("axpy", [pool(scratch)], broken.program("kernel void axpy(global float *x) { x[0] = NOWHERE; }"), [1])
    answer = gpu.load(broken)
    assert answer["error"] == "build_failed"
    assert answer["call"] == "clBuildProgram"
    assert answer["code_name"] == "CL_BUILD_PROGRAM_FAILURE"
    assert answer["step"] == 0
    assert "NOWHERE" in answer["message"]
    assert gpu.ask("run")["error"] == "bad_command"


@pytest.mark.slow
def test_missing_kernel(gpu: Farmrt) -> None:
    plan = PlanBuilder()
    scratch = plan.scratch(16)
    plan.step("nothing", [pool(scratch)], plan.program("kernel void axpy(global float *x) { x[0] = 1; }"), [1])
    answer = gpu.load(plan)
    assert (answer["error"], answer["call"], answer["code_name"]) == (
        "opencl",
        "clCreateKernel",
        "CL_INVALID_KERNEL_NAME",
    )


def test_probe(gpu: Farmrt) -> None:
    answer = gpu.done("probe", opencl=gpu.library)
    assert answer["opencl"]["device"]["type"] in ("cpu", "gpu")
    assert answer["opencl"]["origin"] == ("driver" if "pocl" in Path(gpu.library).name else "loader")
    assert answer["opencl"]["platform_version"].startswith("OpenCL ")
    assert answer["page_bytes"] % 4096 == 0
    assert answer["memory_bytes"] > 1 << 28


def test_missing_library(cpu: Farmrt) -> None:
    answer = cpu.done("probe")
    assert "device" not in answer["opencl"]
    assert answer["opencl"]["searched"] == ["/nonexistent/libOpenCL.so"]
    assert answer["opencl"]["error"]
    assert cpu.load(axpy_plan()[0])["error"] == "no_opencl"
