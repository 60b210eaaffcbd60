"""Programs that farmrt builds while it measures others: what is hidden, what fails, what hangs, what crashes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.native.build import build_farmrt
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, pool
from tests.native.test_tuning import options, ready

pytestmark = pytest.mark.slow

BUILD_S = 0.3
RECORD = "record"


def plan() -> PlanBuilder:
    """Two launches of one source and different options, then an operator of the CPU."""
    made = PlanBuilder()
    for index in range(2):
        program = made.program("kernel void f() {}", f"-DSTEP={index}")
        made.step("f", [pool(made.scratch(8))], program, [8], [4])
    return made


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Farmrt]:
    """farmrt under sanitizers on a driver that says it is a GPU, whose compiler takes its time; the plan is loaded."""
    program = build_farmrt(sanitize=True)
    variables = {"FAKE_OPENCL_BUILD_MS": str(int(BUILD_S * 1e3)), "FAKE_OPENCL_RECORD": str(tmp_path / RECORD)}
    with Farmrt(program, tmp_path, str(program.parent / "libfake_opencl.so"), variables) as farmrt:
        assert farmrt.load(plan())["ok"]
        yield farmrt
    assert farmrt.process.returncode == 0


def builds(farmrt: Farmrt) -> list[str]:
    """Options of what the compiler was given, in order."""
    lines = (farmrt.folder / RECORD).read_text().splitlines()
    return [line.removeprefix("build ") for line in lines if line.startswith("build ")]


def test_the_next_program_is_built_while_this_one_is_measured(fake: Farmrt) -> None:
    first = fake.done("trial", step=0, reps=3, ahead_options="-DNEXT")
    assert first["building"] and first["beside_build"] and first["build_ms"] == first["hidden_ms"] == 0
    other = fake.done("trial", step=1, reps=3)
    assert other["build_ms"] == 0 and other["beside_build"]
    time.sleep(2 * BUILD_S)
    second = fake.done("trial", step=0, reps=3, options="-DNEXT")
    assert BUILD_S * 1e3 <= second["build_ms"] < 1.1 * second["hidden_ms"]
    assert not second["building"] and not second["beside_build"]
    assert fake.done("trial", step=0, reps=3, options="-DNEXT")["build_ms"] == 0
    assert builds(fake) == ["-DSTEP=0", "-DSTEP=1", "-DNEXT"]


def test_what_is_not_finished_is_waited_for(fake: Farmrt) -> None:
    fake.done("trial", step=0, reps=1, ahead_step=1, ahead_options="-DNEXT")
    answer = fake.done("trial", step=1, reps=1, options="-DNEXT")
    assert 0 <= answer["hidden_ms"] < answer["build_ms"]
    assert answer["build_ms"] >= BUILD_S * 1e3
    assert builds(fake)[2:] == ["-DNEXT"]


def test_one_program_is_built_at_a_time_and_none_twice(fake: Farmrt) -> None:
    fake.done("trial", step=0, reps=1, ahead_options="-DA")
    fake.done("trial", step=0, reps=1, ahead_options="-DB")  # another is being built
    fake.done("trial", step=0, reps=1, options="-DC", ahead_options="-DA")  # after A; and A is there
    assert builds(fake)[2:] == ["-DA", "-DC"]
    answer = fake.done("trial", step=0, reps=1, options="-DA", ahead_step=1)
    assert answer["build_ms"] >= answer["hidden_ms"] > 0
    assert not answer["building"]  # the step's own program, which is there
    assert builds(fake)[2:] == ["-DA", "-DC"]


def test_a_failure_is_told_when_its_program_is_asked_for(fake: Farmrt) -> None:
    fake.done("trial", step=0, reps=1, ahead_options="-Drefuse")
    assert fake.done("trial", step=1, reps=1)["ok"]
    answer = fake.ask("trial", step=0, reps=1, options="-Drefuse")
    assert answer["error"] == "build_failed" and answer["step"] == 0
    assert "-Drefuse" in answer["message"]
    assert builds(fake)[2:] == ["-Drefuse"]
    fake.done("trial", step=0, reps=1, ahead_options="-Drefuse -DB")
    time.sleep(2 * BUILD_S)
    assert not fake.done("trial", step=0, reps=1, ahead_options="-Drefuse -DB")["building"]  # it has failed already
    fake.done("trial", step=0, reps=1, ahead_options="-Drefuse -DC")  # takes the place of the one before
    assert fake.ask("trial", step=0, reps=1, options="-Drefuse -DB")["error"] == "build_failed"
    assert fake.done("trial", step=0, reps=1)["ok"]


def test_unloading_waits_for_the_compiler(fake: Farmrt) -> None:
    fake.done("trial", step=0, reps=1, ahead_options="-DA")
    fake.done("unload")
    assert fake.load(plan())["ok"]
    fake.done("trial", step=0, reps=1, ahead_options="-DB")  # and so does the end, with nothing leaked


@pytest.mark.parametrize("values", [{"ahead_step": 2}, {"ahead_step": 9, "ahead_options": ""}, {"ahead_step": "x"}])
def test_a_step_that_is_not_there_is_refused(fake: Farmrt, values: dict[str, object]) -> None:
    assert fake.ask("trial", step=0, reps=1, **values)["error"] == "bad_command"
    assert fake.done("trial", step=0, reps=1)["ok"]


def broken_driver(folder: Path) -> Farmrt:
    program = build_farmrt(sanitize=True)
    farmrt = Farmrt(program, folder, str(program.parent / "libfake_opencl.so"))
    assert farmrt.load(plan())["ok"]
    return farmrt


def test_a_compiler_that_hangs_holds_up_only_its_own_program(tmp_path: Path) -> None:
    with broken_driver(tmp_path) as farmrt:
        farmrt.done("trial", step=0, reps=1, ahead_options="-DHANG")
        for _ in range(3):
            assert farmrt.done("trial", step=1, reps=1)["building"]
        farmrt.process.kill()


def test_a_compiler_that_crashes_takes_the_process_along(tmp_path: Path) -> None:
    with broken_driver(tmp_path) as farmrt:
        assert farmrt.process.stdin
        farmrt.process.stdin.write("trial step=0 reps=1 ahead_options=-DCRASH\n")
        farmrt.process.stdin.flush()
        assert farmrt.process.wait(30) == 139


@pytest.mark.opencl
def test_a_program_built_ahead_computes_the_same(gpu: Farmrt) -> None:
    ready(gpu)
    extra = " -DAHEAD=1"
    gpu.done("trial", step=0, reps=3, check=1, ahead_options=options(extra=extra))
    answer = gpu.done("trial", step=0, reps=3, check=1, options=options(extra=extra))
    assert answer["build_ms"] > 0
    assert answer["max_abs_error"] < 1e-4 and answer["nan_count"] == 0
    gpu.done("trial", step=0, reps=1, ahead_options="-DBLOCK=4 -DBROKEN=nonsense")
    assert gpu.ask("trial", step=0, reps=1, options="-DBLOCK=4 -DBROKEN=nonsense")["error"] == "build_failed"
    assert gpu.done("trial", step=0, reps=1, check=1)["nan_count"] == 0
