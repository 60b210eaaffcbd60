"""Trials, tuned parameters, compiled kernels, limits: what changes how a step is launched."""

import time
from pathlib import Path

import numpy as np
import pytest

from runtime.types import Role
from tests.native.artifacts import fingerprint, tuned_entry, tuned_file
from tests.native.conftest import THOROUGH
from tests.native.fake_driver import fake_driver
from tests.native.farmrt import Farmrt
from tests.native.plans import Floats, PlanBuilder, integer, packed, pool

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

# y[r] = sum_c w[r][c] * x[c], a work item a block of rows.
DENSE = """
kernel void dense(global const float *x, global const float *w, int w_offset, global float *y, int y_offset,
                  int rows, int cols) {
    int block = get_global_id(0);
    for (int lane = 0; lane < BLOCK; lane++) {
        int row = block * BLOCK + lane;
        float sum = 0;
        for (int c = 0; c < cols; c++) sum += x[c] * w[w_offset + (block * cols + c) * BLOCK + lane];
#ifdef SKIP_LAST
        if (row == rows - 1) continue;
#endif
        if (row < rows) y[y_offset + row] = sum BROKEN;
    }
}
kernel void relay(global const float *y, int y_offset, global float *z, int z_offset, int rows) {
    int i = get_global_id(0);
    if (i < rows) z[z_offset + i] = y[y_offset + i];
}
kernel void endless(global const float *x, global const float *w, int w_offset, global float *y, int y_offset,
                    int rows, int cols) {
    volatile global float *spin = y;
    while (spin[y_offset] > -1e30f || spin[y_offset] != 17.0f) spin[y_offset + 1] = 3;
}
"""
ROWS, COLS, BLOCK = 37, 19, 4
KEY = "dense 37 19"
OPTIONS = "-DBLOCK=4 -DBROKEN="


def options(block: int = BLOCK, broken: str = "", extra: str = "") -> str:
    return f"-DBLOCK={block} -DBROKEN={broken}{extra}"


def dense_plan() -> tuple[PlanBuilder, Floats, Floats]:
    """Two dense layers of the same key, the second behind a copy; weights and the expected outputs."""
    random = np.random.default_rng(3)
    plan = PlanBuilder()
    w = random.standard_normal((1, ROWS, COLS)).astype(np.float32)
    x = random.standard_normal(COLS).astype(np.float32)
    weights = plan.weights(packed(w, BLOCK))
    scratch = plan.scratch(16 * 16)
    program = plan.program(DENSE, OPTIONS)
    blocks = -(-ROWS // BLOCK)
    source = plan.scratch(COLS)
    args = [pool(source), pool(weights), integer(0), pool(scratch), integer(32), integer(ROWS), integer(COLS)]
    step = plan.step("dense", args, program, [blocks], key=KEY, name="fc")
    plan.pack(step, 1, 1, ROWS, COLS, BLOCK)
    relay = [pool(scratch), integer(32), pool(scratch), integer(96), integer(ROWS)]
    last = plan.step("relay", relay, program, [ROWS])
    plan.tensor("x", Role.INPUT, source, [COLS])
    output = plan.tensor("z", Role.OUTPUT, scratch, [ROWS], offset=96, step=last)
    y = w[0] @ x
    plan.expect(step, last, output, y)
    return plan, x, y


def ready(gpu: Farmrt, **load: object) -> Floats:
    """Loads the plan, sets its input, runs it once; returns what it must write."""
    plan, x, y = dense_plan()
    answer = gpu.load(plan, **load)
    assert answer["ok"], answer
    gpu.input("x", x)
    gpu.done("run")
    np.testing.assert_allclose(gpu.output("z"), y, rtol=1e-4, atol=1e-5)
    return y


def test_trial_times_and_checks(gpu: Farmrt) -> None:
    ready(gpu)
    answer = gpu.done("trial", step=0, reps=3, warmup=1, check=1)
    assert len(answer["ns"]) == 3
    assert answer["wall_ns"] > 0
    assert answer["build_ms"] == 0
    assert answer["max_abs_error"] < 1e-4 < answer["max_abs_expected"]
    assert answer["nan_count"] == 0
    assert answer["max_work_group_size"] > 0
    assert answer["preferred_multiple"] > 0


@pytest.mark.parametrize("block", [1, 4, 8, 16])
def test_trial_repacks_the_weights(gpu: Farmrt, block: int) -> None:
    ready(gpu)
    size = -(-ROWS // block)
    answer = gpu.done("trial", step=0, reps=1, options=options(block), **{"global": [size]}, block=block, check=1)
    assert (answer["build_ms"] > 0) == (block != BLOCK)
    assert answer["max_abs_error"] < 1e-4
    assert answer["nan_count"] == 0


def test_trial_finds_what_is_wrong_and_what_is_missing(gpu: Farmrt) -> None:
    y = ready(gpu)
    wrong = gpu.done("trial", step=0, reps=1, options=options(broken="+1"), check=1)
    assert wrong["max_abs_error"] == pytest.approx(1, rel=1e-3)
    missing = gpu.done("trial", step=0, reps=1, options=options(extra=" -DSKIP_LAST"), check=1)
    assert missing["nan_count"] == 1
    few = gpu.done("trial", step=0, reps=1, **{"global": [4]}, check=1)
    assert few["nan_count"] == ROWS - 4 * BLOCK
    np.testing.assert_allclose(gpu.output("z"), y, rtol=1e-4, atol=1e-5)


def test_trial_that_cannot_run(gpu: Farmrt) -> None:
    ready(gpu)
    assert gpu.ask("trial", step=9, reps=1)["error"] == "bad_command"
    assert gpu.ask("trial", step=0, reps=1, options="-DBLOCK=4 -DBROKEN=nonsense")["error"] == "build_failed"
    uneven = {"global": [10], "local": [3]}
    assert gpu.ask("trial", step=0, reps=1, **uneven)["error"] == "bad_command"
    huge = {"global": [1 << 20], "local": [1 << 20]}
    assert gpu.ask("trial", step=0, reps=1, **huge)["error"] in ("unsupported", "opencl")
    assert gpu.done("trial", step=0, reps=1, check=1)["nan_count"] == 0


def load_tuned(gpu: Farmrt, content: bytes, **load: object) -> dict[str, object]:
    path = gpu.folder / "tuned"
    path.write_bytes(content)
    plan, x, y = dense_plan()
    answer = gpu.load(plan, tuned=path, **load)
    assert answer["ok"], answer
    gpu.input("x", x)
    gpu.done("run")
    np.testing.assert_allclose(gpu.output("z"), y, rtol=1e-4, atol=1e-5)
    tuned: dict[str, object] = answer["tuned"]
    return tuned


def test_tuned_parameters_by_fingerprint(gpu: Farmrt) -> None:
    probe = gpu.done("probe", opencl=gpu.library)
    entries = [tuned_entry(KEY, "dense", options(8), [8], [2], 8)]
    other = [tuned_entry("other", "dense", options(8), [8], [2], 8)]
    exact = tuned_file([(fingerprint(probe, driver="0"), other), (fingerprint(probe), entries)])
    assert load_tuned(gpu, exact, soc="host") == {"match": "exact", "entries": 1, "used": 1, "reason": ""}
    assert load_tuned(gpu, exact)["match"] == "exact"
    family = load_tuned(gpu, exact, soc="sdm845")
    assert (family["match"], family["used"]) == ("family", 0)
    assert "SoC differs: the file is for 'host', this is 'sdm845'" in str(family["reason"])
    stale = tuned_file([(fingerprint(probe, source_hash="old"), entries)])
    assert load_tuned(gpu, stale)["match"] == "none"
    elsewhere = tuned_file([(fingerprint(probe, gpu="Mali", gpu_family="mali"), entries)])
    assert load_tuned(gpu, elsewhere)["match"] == "none"


def test_tuned_launch_that_the_device_refuses(gpu: Farmrt) -> None:
    probe = gpu.done("probe", opencl=gpu.library)
    entries = [tuned_entry(KEY, "dense", "-DBLOCK=8 -DBROKEN=nonsense", [8], [2], 8)]
    tuned = load_tuned(gpu, tuned_file([(fingerprint(probe, soc="elsewhere"), entries)]), soc="host")
    assert (tuned["match"], tuned["entries"], tuned["used"]) == ("family", 1, 0)
    assert "step 0 refused its launch" in str(tuned["reason"])


def test_tuned_file_damaged(gpu: Farmrt) -> None:
    path = gpu.folder / "tuned"
    path.write_bytes(b"FARMTUNE" + bytes(100))
    answer = gpu.load(dense_plan()[0], tuned=path)
    assert answer["error"] == "bad_file"
    assert str(path) in answer["message"]


def test_compiled_kernels(gpu: Farmrt) -> None:
    path = gpu.folder / "kernels"
    y = ready(gpu, soc="host")
    gpu.done("trial", step=0, reps=1, options=options(8), **{"global": [5]}, block=8)
    saved = gpu.done("save_kernels", file=path)
    assert saved["programs"] == 1
    assert saved["bytes"] == path.stat().st_size
    assert gpu.done("save_kernels", file=gpu.folder / "tried", trials=1)["programs"] == 2
    plan, x, _ = dense_plan()
    answer = gpu.load(plan, kernels=path, soc="host")
    assert answer["ok"], answer
    assert answer["kernels"]["match"] == "exact"
    assert (answer["kernels"]["loaded"], answer["kernels"]["built"]) == (1, 0)
    gpu.input("x", x)
    gpu.done("run")
    np.testing.assert_allclose(gpu.output("z"), y, rtol=1e-4, atol=1e-5)
    other = gpu.load(plan, kernels=path, soc="rk3399")["kernels"]
    assert (other["match"], other["loaded"], other["built"]) == ("none", 0, 1)
    assert "SoC differs" in other["reason"]


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("FAIL", "clCreateProgramWithBinary:1", "CL_OUT_OF_RESOURCES"),
        ("FAIL", "clBuildProgram:1", "CL_OUT_OF_RESOURCES"),
        ("BINARY_STATUS", "-42", "CL_INVALID_BINARY"),
        ("BINARY_STATUS", "-44", "CL_INVALID_PROGRAM"),
        ("BINARY_STATUS", "0", "CL_INVALID_BINARY"),
    ],
)
def test_a_binary_that_does_not_build_is_told_with_the_drivers_code(
    setting: str, value: str, told: str, farmrt_program: Path, tmp_path: Path
) -> None:
    library, plan, path = str(fake_driver()), dense_plan()[0], tmp_path / "kernels"
    with Farmrt(farmrt_program, tmp_path, library) as saving:
        assert saving.load(plan, soc="host")["ok"]
        saving.done("save_kernels", file=path)
    with Farmrt(farmrt_program, tmp_path, library, {f"FAKE_OPENCL_{setting}": value}) as loading:
        kernels = loading.load(plan, kernels=path, soc="host")["kernels"]
    assert (kernels["loaded"], kernels["built"]) == (0, 1)
    assert kernels["reason"] == f"the driver refused a binary ({told})"


def test_lazy_builds_at_the_first_run(gpu: Farmrt) -> None:
    plan, x, y = dense_plan()
    assert gpu.load(plan, lazy=1)["kernels"]["built"] == 0
    gpu.input("x", x)
    gpu.done("run")
    np.testing.assert_allclose(gpu.output("z"), y, rtol=1e-4, atol=1e-5)


SLOW = """
kernel void slow(global float *y, int count) {
    int i = get_global_id(1);
    float sum = 0;
    for (int k = 0; k < 8000; k++) sum += sin((float)(k + i));
    if (i < count) y[i] = get_global_id(1) + get_global_id(0) + (sum > 1e9f);
}
"""


def test_long_launches_are_split(gpu: Farmrt) -> None:
    count = 256
    plan = PlanBuilder()
    scratch = plan.scratch(count)
    plan.step("slow", [pool(scratch), integer(count)], plan.program(SLOW), [1, count], [1, 2])
    plan.tensor("y", Role.OUTPUT, scratch, [count], step=0)
    assert gpu.load(plan, limit_kernel_ms=0.5)["ok"]
    before = gpu.done("run", profile=1)["steps"][0]["ns"][0]
    assert before > 500_000
    after = gpu.done("run", profile=1)
    np.testing.assert_array_equal(gpu.output("y"), np.arange(count))
    assert after["wall_ns"][0] > 0


def test_watchdog_ends_a_launch_that_hangs(gpu: Farmrt) -> None:
    ready(gpu, watchdog_ms=300)
    start = time.monotonic()
    answer = gpu.ask("trial", step=0, reps=1, kernel="endless", **{"global": [1]})
    assert (answer["error"], answer["step"]) == ("hang", 0)
    assert 0.3 < time.monotonic() - start < 20
    assert gpu.process.wait(60) == 4


LONG = """
kernel void slow(global float *y, int count) {
    float sum = 0;
    for (int k = 0; k < count; k++) sum += sin(sum + k);
    y[0] = sum;
}
"""


def long_plan(loops: int, steps: int) -> PlanBuilder:
    """Launches in a row, each of which waits for the one before."""
    plan = PlanBuilder()
    scratch = plan.scratch(16)
    program = plan.program(LONG)
    for _ in range(steps):
        plan.step("slow", [pool(scratch), integer(loops)], program, [1])
    plan.tensor("y", Role.OUTPUT, scratch, [1], step=steps - 1)
    return plan


@pytest.mark.parametrize("gpu", list(THOROUGH)[:1], indirect=True)
def test_watchdog_lets_a_slow_round_go_on_that_progresses(gpu: Farmrt) -> None:
    """The first since its steps end one by one, later ones since the first tells how long they take."""
    assert gpu.load(long_plan(1_000_000, 1))["ok"]
    million_ns = min(gpu.done("run", rounds=3)["wall_ns"])
    loops = int(150e6 / million_ns * 1_000_000)  # a machine that was busy meanwhile may be half as slow then
    assert gpu.load(long_plan(loops, 16), watchdog_ms=900)["ok"]
    for _ in range(2):
        (wall_ns,) = gpu.done("run", rounds=1)["wall_ns"]
        assert wall_ns > 1e9, "longer than the limit"
    assert gpu.progress_lines >= 1


def test_run_command(farmrt_program: Path, gpu: Farmrt) -> None:
    ready(gpu)
    assert gpu.done("unload") == {"ok": True}
    assert gpu.ask("run")["error"] == "bad_command"


def test_trial_in_pairs_times_the_steps_own_launch_beside_it(gpu: Farmrt) -> None:
    y = ready(gpu)
    size = -(-ROWS // 8)
    other = {"options": options(8), "global": [size], "block": 8}
    answer = gpu.done("trial", step=0, reps=5, warmup=1, pairs=1, before=[1, 0], check=1, **other)
    assert len(answer["ns"]) == len(answer["own_ns"]) == 5
    assert all(ns > 0 for ns in answer["ns"] + answer["own_ns"])
    assert answer["max_abs_error"] < 1e-4
    np.testing.assert_allclose(gpu.output("z"), y, rtol=1e-4, atol=1e-5)
    assert "own_ns" not in gpu.done("trial", step=0, reps=1)


def test_trial_after_a_ramp_says_whether_it_was_steady(gpu: Farmrt) -> None:
    ready(gpu)
    answer = gpu.done("trial", step=0, reps=2, ramp_ms=50)
    assert answer["steady"] in (True, False)
    assert answer["ramp"] >= 4
    assert answer["ramp"] % 4 == 0
    assert "steady" not in gpu.done("trial", step=0, reps=2)


@pytest.mark.parametrize("words", [{"before": [9]}, {"before": [0] * 9}, {"ramp_ms": 10001}, {"pairs": 2}])
def test_trial_refuses_a_state_that_there_is_not(gpu: Farmrt, words: dict[str, object]) -> None:
    ready(gpu)
    assert gpu.ask("trial", step=0, reps=1, **words)["error"] == "bad_command"
    assert len(gpu.done("trial", step=0, reps=1)["ns"]) == 1
