"""Every OpenCL call that fails gives an answer, and farmrt goes on: under sanitizers, on a library of no use."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.native.build import build_farmrt
from runtime.types import Role
from tests.native import fuzz
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, image, integer, number, pool

pytestmark = pytest.mark.slow

CALLS = (
    *("clGetPlatformIDs", "clGetDeviceIDs", "clCreateContext", "clCreateCommandQueue", "clCreateBuffer"),
    *("clCreateImage2D", "clCreateProgramWithSource", "clBuildProgram", "clCreateKernel", "clSetKernelArg"),
    *("clEnqueueWriteBuffer", "clEnqueueReadBuffer", "clEnqueueNDRangeKernel", "clEnqueueMapBuffer"),
    *("clEnqueueUnmapMemObject", "clFinish", "clGetEventProfilingInfo", "clGetEventInfo", "clGetProgramInfo"),
)
COUNT = 8


def mixed_plan() -> PlanBuilder:
    """A kernel with buffer, image and local memory, then a CPU step."""
    plan = PlanBuilder()
    x, y, z = (plan.scratch(COUNT) for _ in range(3))
    weights = plan.weights(np.ones(COUNT, np.float32))
    picture = plan.image(4, 2)
    program = plan.program("kernel void f() {}")
    step = plan.step("f", [pool(x), pool(weights), pool(y), integer(0), image(picture)], program, [COUNT], [4])
    args = [pool(y), integer(0), pool(z), integer(0), *map(integer, (1, 1, 1, COUNT, 0, 0, 0, 1, 0, 0, 0, 1))]
    last = plan.step("unary UNARY=0", [*args, number(-0.5), number(0.5)])
    plan.tensor("x", Role.INPUT, x, [COUNT])
    output = plan.tensor("z", Role.OUTPUT, z, [COUNT], step=last)
    plan.expect(step, last, output, np.zeros(COUNT, np.float32))
    return plan


def session(farmrt: Farmrt) -> list[dict[str, Any]]:
    """Answers to a whole session."""
    path = farmrt.folder / "file"
    path.write_bytes(bytes(COUNT * 4))
    answers = [farmrt.load(mixed_plan())]
    for command, values in [
        ("input", {"name": "x", "file": path}),
        ("run", {"rounds": 2, "profile": 1}),
        ("run", {}),
        ("trial", {"step": 0, "reps": 2, "check": 1}),
        ("trial", {"step": 0, "reps": 2, "pairs": 1, "before": [0], "ramp_ms": 1}),
        ("output", {"name": "z", "file": path}),
        ("save_kernels", {"file": farmrt.folder / "kernels"}),
    ]:
        answers.append(farmrt.ask(command, **values))
    return answers


@pytest.mark.parametrize("call", CALLS)
def test_one_call_fails(call: str, tmp_path: Path) -> None:
    program = build_farmrt(sanitize=True)
    library = str(program.parent / "libfake_opencl.so")
    with Farmrt(program, tmp_path, library, {"FAKE_OPENCL_FAIL": f"{call}:1"}) as farmrt:
        failed = [answer for answer in session(farmrt) if not answer["ok"]]
        kind = {"clGetPlatformIDs": "no_opencl", "clGetDeviceIDs": "no_opencl", "clBuildProgram": "build_failed"}
        named = "clEnqueueWriteBuffer" if call == "clGetEventInfo" else call
        if call != "clGetDeviceIDs":  # the next kind of device is asked for
            assert failed[0]["error"] == kind.get(call, "opencl")
            if failed[0]["error"] != "no_opencl":
                assert (failed[0]["call"], failed[0]["code_name"]) == (named, "CL_OUT_OF_RESOURCES")
        assert all(answer["ok"] for answer in session(farmrt))
    assert farmrt.process.returncode == 0


@pytest.mark.parametrize("clock", ["runs", "stands"])
def test_a_device_whose_clock_stands_is_timed_by_the_host(clock: str, tmp_path: Path) -> None:
    program = build_farmrt(sanitize=True)
    library = str(program.parent / "libfake_opencl.so")
    plan = PlanBuilder()
    plan.step("f", [pool(plan.scratch(COUNT))], plan.program("kernel void f() {}"), [4], [2])
    with Farmrt(program, tmp_path, library, {"FAKE_OPENCL_CLOCK": clock}) as farmrt:
        farmrt.load(plan)
        run, trial = farmrt.ask("run", rounds=2, profile=1), farmrt.ask("trial", step=0, reps=2)
    assert run["by_host"] == trial["by_host"] == (clock == "stands")
    times = [*run["steps"][0]["ns"], *trial["ns"]]
    assert (set(times) <= {500, 1000}) == (clock == "runs")
    assert min(times) > 0


@pytest.mark.parametrize("failing", [8, 9])
def test_a_long_launch_is_split_into_parts(failing: int, tmp_path: Path) -> None:
    """Each launch takes 500 ns there: the first round needs one, those behind it seven of at most 100 ns."""
    program = build_farmrt(sanitize=True)
    library = str(program.parent / "libfake_opencl.so")
    plan = PlanBuilder()
    scratch = plan.scratch(COUNT)
    plan.step("f", [pool(scratch)], plan.program("kernel void f() {}"), [4, 1000], [2, 10])
    with Farmrt(program, tmp_path, library, {"FAKE_OPENCL_FAIL": f"clEnqueueNDRangeKernel:{failing}"}) as farmrt:
        assert farmrt.load(plan, limit_kernel_ms=0.0001)["ok"]
        assert [farmrt.ask("run")["ok"] for _ in range(3)] == [True, failing == 9, failing == 8]


def test_the_parts_of_a_long_launch_cover_it(tmp_path: Path) -> None:
    """Of steps that take 2 ms with a limit of 1 ms each is split by whole work groups, without any tuned file."""
    program = build_farmrt(sanitize=True)
    record = tmp_path / "record"
    plan = PlanBuilder()
    scratch = plan.scratch(COUNT)
    source = plan.program("kernel void f() {}")
    plan.step("f", [pool(scratch)], source, [4, 1000], [2, 10])
    plan.step("f", [pool(scratch)], source, [8], [8])
    variables = {"FAKE_OPENCL_LAUNCH_NS": "2000000", "FAKE_OPENCL_RECORD": str(record)}
    with Farmrt(program, tmp_path, str(program.parent / "libfake_opencl.so"), variables) as farmrt:
        assert farmrt.load(plan, limit_kernel_ms=1)["tuned"]["match"] == "none"
        assert farmrt.done("run")["limit"] == {"launches": 4, "split_steps": 1}
        farmrt.done("run")
    launches = [line.removeprefix("launch ") for line in record.read_text().splitlines() if "launch" in line]
    measured, split = launches[:2], launches[2:]
    assert measured == ["0,0 4,1000", "0 8"]
    assert split == ["0,0 4,340", "0,340 4,340", "0,680 4,320", "0 8"]


def test_mutated_files(tmp_path: Path) -> None:
    samples = fuzz.write_corpus(tmp_path)
    reached = fuzz.run(tmp_path, 0, 2000, seed=3)
    assert reached["samples"] == samples
    assert reached["ran"] > 400
    assert reached["tuned"] > 50
    assert reached["kernels"] > 8
