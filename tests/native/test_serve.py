"""The protocol of `farmrt serve` and `farmrt run`: bad commands, bad files, endings."""

import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.toolchain import environment
from runtime.plan.records import SectionId
from runtime.types import Role
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, integer, number, pool

COUNT = 12


def scale_plan(kernel: str = "unary UNARY=0", repeat: int = 1) -> PlanBuilder:
    """y = clamp(x, -0.5, 0.5) on the CPU."""
    plan = PlanBuilder("tiny")
    x, y = plan.scratch(COUNT), plan.scratch(COUNT)
    strides = [integer(v) for v in (0, 0, 0, 1, 0, 0, 0, 1)]
    for _ in range(repeat):
        args = [pool(x), integer(0), pool(y), integer(0), *map(integer, (1, 1, 1, COUNT)), *strides]
        plan.step(kernel, [*args, number(-0.5), number(0.5)])
    plan.tensor("in put", Role.INPUT, x, [3, 4])
    plan.tensor("y/ü", Role.OUTPUT, y, [COUNT], step=0)
    return plan


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "an empty command"),
        ("dance", "unknown command 'dance'"),
        ("load plan=a", "load: data: is needed"),
        ("load plan=a data=b treads=2", "load: treads: unknown key"),
        ("load plan=a data=b threads=x", "load: threads: is not a number in range"),
        ("load plan=a data=b threads=99999999999999999999", "load: threads: is not a number in range"),
        ("load plan=a data=b affinity=huge", "load: affinity: is not one of the known words"),
        ("load plan=a data=b limit_kernel_ms=-1", "load: limit_kernel_ms: is not a number in range"),
        ("load plan=a plan=b", "load: 'plan' is given twice"),
        ("load plan", "load: 'plan' is not key=value"),
        ("load plan=%4", "load: plan: a '%' is not followed by two hexadecimal digits"),
        ("run rounds=1", "run: no plan is loaded"),
        ("trial reps=1", "trial: step: is needed"),
        ("trial step=0 global=1,2,3,4", "trial: global: is not a list of numbers"),
        ("trial step=0 before=1,2,3,4,5,6,7,8,9", "trial: before: is not a list of numbers"),
        ("trial step=0 before=-1", "trial: before: is not a list of numbers"),
        ("trial step=0 pairs=2", "trial: pairs: is not a number in range"),
        ("trial step=0 ramp_ms=10001", "trial: ramp_ms: is not a number in range"),
        ("save_kernels file=x", "save_kernels: no plan is loaded"),
    ],
)
def test_bad_commands(cpu: Farmrt, line: str, said: str) -> None:
    answer = cpu.line(line)
    assert answer == {"ok": False, "error": "bad_command", "message": said}


def test_load_run_and_names_with_blanks(cpu: Farmrt) -> None:
    answer = cpu.load(scale_plan())
    assert answer["model"] == "tiny"
    assert answer["steps"] == 1
    assert answer["cpu"]["threads"] >= 1
    assert answer["memory"]["scratch_bytes"] == 2 * COUNT * 4
    x = np.linspace(-1, 1, COUNT, dtype=np.float32)
    cpu.input("in put", x)
    run = cpu.done("run", rounds=2, profile=1)
    assert [len(step["ns"]) for step in run["steps"]] == [2]
    np.testing.assert_array_equal(cpu.output("y/ü"), x.clip(-0.5, 0.5))


def test_bad_inputs_and_outputs(cpu: Farmrt) -> None:
    assert cpu.load(scale_plan())["ok"]
    path = cpu.folder / "short"
    path.write_bytes(b"1234")
    assert cpu.ask("input", name="in put", file=path)["message"] == f"{path}: 4 bytes, 48 are needed"
    assert cpu.ask("input", name="nobody", file=path)["message"] == "the plan has no input 'nobody'"
    assert cpu.ask("input", name="in put", file=cpu.folder / "missing")["error"] == "io"
    assert cpu.ask("input", name="in put", file=cpu.folder)["error"] == "io"
    assert cpu.ask("output", name="y/ü", file=cpu.folder / "no" / "folder")["error"] == "io"
    assert cpu.ask("trial", step=0, reps=1)["message"] == "trial: a CPU step"
    assert cpu.ask("save_kernels", file=path)["error"] == "unsupported"
    assert cpu.done("run")["ok"]


def test_a_failed_load_leaves_none(cpu: Farmrt) -> None:
    assert cpu.load(scale_plan())["ok"]
    assert cpu.load(scale_plan("nonsense"))["error"] == "unsupported"
    assert cpu.ask("run")["error"] == "bad_command"


@pytest.mark.parametrize(
    "kernel", ["unary UNARY=99", "unary UNARY=", "unary UNARY", "unary  UNARY=1", "unary UNARY=1x"]
)
def test_bad_cpu_options(cpu: Farmrt, kernel: str) -> None:
    answer = cpu.load(scale_plan(kernel))
    assert (answer["error"], answer["step"]) == ("bad_file", 0)
    assert "an option is out of range" in answer["message"]


def damaged(plan: bytes, data: bytes) -> list[tuple[bytes, bytes, str]]:
    flipped = bytearray(plan)
    flipped[200] ^= 1
    other_version = bytearray(plan)
    other_version[8] += 1
    return [
        (plan[:20], data, "truncated: 20 bytes are no FARMPLAN file"),
        (plan[:-64], data, "damaged or truncated (size or checksum differs)"),
        (bytes(flipped), data, "damaged or truncated (size or checksum differs)"),
        (bytes(other_version), data, "format version 2, this farmrt reads 1"),
        (b"x" * 400, data, "not a FARMPLAN file"),
        (plan, data + b"\0", "its plan was made with"),
        (plan, data[:-1] + b"\x01", "damaged, or not the data of its plan (checksum differs)"),
    ]


def test_damaged_files(cpu: Farmrt) -> None:
    builder = scale_plan()
    builder.weights(np.ones(16, np.float32))
    for plan, data, said in damaged(*builder.files()):
        answer = cpu.load_files(plan, data)
        assert answer["error"] == "bad_file"
        assert said in answer["message"]


@pytest.mark.parametrize("fields", [{"first_arg": 1}, {"first_arg": 1 << 31}, {"arg_count": 99}])
def test_arguments_behind_the_last_one(cpu: Farmrt, fields: dict[str, int]) -> None:
    plan = scale_plan()
    plan.rows[SectionId.STEP][0].update(fields)
    answer = cpu.load(plan)
    assert answer["error"] == "bad_file"
    assert "its arguments are out of range" in answer["message"]


def test_arguments_beyond_the_pool(cpu: Farmrt) -> None:
    for position, value in [(1, 1), (3, COUNT), (7, COUNT + 1), (11, 2), (15, 1 << 30), (1, -1), (4, 0)]:
        plan = scale_plan()
        fields = plan.rows[SectionId.ARG]
        fields[position]["value"] = value & 0xFFFFFFFF
        answer = cpu.load(plan)
        assert answer["error"] == "bad_file", (position, value)
        assert "CPU operator 'unary UNARY=0'" in answer["message"]


def test_overlong_lines_and_noise(cpu: Farmrt) -> None:
    assert "more than 1048576 bytes" in cpu.line("load plan=" + "x" * (1 << 21))["message"]
    noise = random.Random(4)
    for _ in range(300):
        words = [noise.choice(["load", "run", "trial", "plan=", "x=%41", "=", "%", "step=1", "\x01\x7f", "a=b=c"])]
        words += ["".join(chr(noise.randrange(33, 127)) for _ in range(noise.randrange(12))) for _ in range(3)]
        assert cpu.line(" ".join(words))["ok"] is False
    assert cpu.done("unload")


def test_quit_and_end_of_input(farmrt_program: Path) -> None:
    def serve(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([farmrt_program, "serve"], input=text, capture_output=True, text=True, timeout=60)

    done = serve("quit\nrun\n")
    assert (done.returncode, done.stdout) == (0, '{"ok": true}\n')
    assert (serve("").returncode, serve("").stdout) == (0, "")
    assert serve("run").stdout == ""  # a line without its end is no command


def test_a_reader_that_went_away(farmrt_program: Path) -> None:
    process = subprocess.Popen([farmrt_program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    process.stdout.close()
    process.stdin.write("run\n" * 10)
    process.stdin.close()
    assert process.wait(60) == 0


def run_once(program: Path, *words: object) -> tuple[int, dict[str, Any]]:
    done = subprocess.run([program, "run", *map(str, words)], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def test_run_command(farmrt_program: Path, tmp_path: Path) -> None:
    plan, data = scale_plan().files()
    paths = {name: tmp_path / name for name in ("plan", "data", "x", "y")}
    x = np.linspace(-1, 1, COUNT, dtype=np.float32)
    for name, content in {"plan": plan, "data": data, "x": x.tobytes()}.items():
        paths[name].write_bytes(content)
    files = [f"plan={paths['plan']}", f"data={paths['data']}"]
    status, answer = run_once(
        farmrt_program, *files, f"input:in put={paths['x']}", f"output:y/ü={paths['y']}", "rounds=3", "warmup=1"
    )
    assert (status, answer["ok"], len(answer["wall_ns"])) == (0, True, 3)
    np.testing.assert_array_equal(np.frombuffer(paths["y"].read_bytes(), np.float32), x.clip(-0.5, 0.5))
    status, answer = run_once(farmrt_program, *files, "input:nobody=x")
    assert (status, answer["error"]) == (2, "bad_command")
    status, answer = run_once(farmrt_program, *files, "frequency=3")
    assert (status, answer["message"]) == (2, "run: frequency: unknown key")
    status, answer = run_once(farmrt_program, f"plan={paths['x']}", files[1])
    assert (status, answer["error"]) == (1, "bad_file")


def test_usage(farmrt_program: Path) -> None:
    for words in ([], ["dance"], ["serve", "x=1"]):
        done = subprocess.run([farmrt_program, *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert "usage: farmrt probe" in done.stderr
    done = subprocess.run([farmrt_program, "--help"], capture_output=True, text=True, check=True)
    assert "usage: farmrt probe" in done.stdout


def check_hashes(command: Sequence[str | Path], folder: Path) -> None:
    """Compares farmrt's hashes with hashlib's: sizes on either side of every border of padding, block and piece."""
    paths = [folder / str(size) for size in (0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 131072, 300_001)]
    for path in paths:
        path.write_bytes(np.random.default_rng(1).bytes(int(path.name)))
    done = subprocess.run([*command, "sha256", *paths], capture_output=True, text=True, check=True)
    expected = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}" for path in paths]
    assert done.stdout.splitlines() == expected


def test_hashes_are_sha256(farmrt_program: Path, tmp_path: Path) -> None:
    check_hashes([farmrt_program], tmp_path)


def test_files_that_cannot_be_hashed_are_named(farmrt_program: Path, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    words = [farmrt_program, "sha256", "gone", "there", "."]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.split()[1:] == ["there"]
    assert done.stderr == "farmrt: gone: No such file or directory\nfarmrt: .: Is a directory\n"


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 5}, {"affinity": "big"}, {"affinity": "little"}])
def test_threads_and_affinity(cpu: Farmrt, options: dict[str, Any]) -> None:
    answer = cpu.load(scale_plan(repeat=50), **options)
    assert answer["cpu"]["threads"] == options.get("threads", answer["cpu"]["threads"])
    x = np.linspace(-1, 1, COUNT, dtype=np.float32)
    cpu.input("in put", x)
    cpu.done("run", rounds=200)
    np.testing.assert_array_equal(cpu.output("y/ü"), x.clip(-0.5, 0.5))


MIX = "kernel void doubled(global const float *x, global float *y) { int i = get_global_id(0); y[i] = x[i] * 2; }"


@pytest.mark.slow
@pytest.mark.opencl
def test_cpu_steps_between_kernels(gpu: Farmrt) -> None:
    """Twice on the device, clamped on the CPU, twice on the device again."""
    plan = PlanBuilder()
    x, a, b, y = (plan.scratch(COUNT) for _ in range(4))
    program = plan.program(MIX)
    strides = [integer(v) for v in (0, 0, 0, 1, 0, 0, 0, 1)]
    plan.step("doubled", [pool(x), pool(a)], program, [COUNT])
    args = [pool(a), integer(0), pool(b), integer(0), *map(integer, (1, 1, 1, COUNT)), *strides]
    plan.step("unary UNARY=0", [*args, number(-0.5), number(0.5)])
    last = plan.step("doubled", [pool(b), pool(y)], program, [COUNT])
    plan.tensor("x", Role.INPUT, x, [COUNT])
    plan.tensor("y", Role.OUTPUT, y, [COUNT], step=last)
    assert gpu.load(plan)["ok"]
    values = np.linspace(-1, 1, COUNT, dtype=np.float32)
    gpu.input("x", values)
    run = gpu.done("run", rounds=3, warmup=1, profile=1)
    np.testing.assert_allclose(gpu.output("y"), (values * 2).clip(-0.5, 0.5) * 2)
    starts = [step["start_ns"] for step in run["steps"]]
    assert starts == sorted(starts)
    assert starts[2] < run["wall_ns"][2]


@pytest.fixture
def busy_core() -> Iterator[int]:
    """A core on which three other processes want to run all the time."""
    core = min(os.sched_getaffinity(0))
    program = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            other = stack.enter_context(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE))
            stack.callback(other.kill)
            assert other.stdout and other.stdout.readline() == b"\n", "it is about to run"
        yield core


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count what threads wait")
def test_what_rounds_waited_for_a_core_is_told(cpu: Farmrt, busy_core: int) -> None:
    """It gets a quarter of the core, where others want it: most of the time it waits, and some of it runs."""
    cpu.load(scale_plan(repeat=2000), threads=1, affinity=str(busy_core))
    cpu.input("in put", np.zeros(COUNT, np.float32))
    run = cpu.done("run", rounds=2000, warmup=10)
    threads, wall_ns = run["threads"], sum(run["wall_ns"]) + sum(run["warmup_ns"])
    assert 0 < threads["running_ns"] < 2 * wall_ns
    assert threads["waiting_ns"] > 0.1 * wall_ns, "others ran on its core meanwhile"


LINES = "probe opencl=/nonexistent\nlog level=%s\nprobe opencl=/nonexistent\nquit\n"


def serve(program: Path, *words: str, level: str = "off", **variables: str) -> tuple[list[bool], str]:
    """Whether each answer is good, and what was said on standard error."""
    done = subprocess.run(
        [program, *words, "serve"], input=LINES % level, capture_output=True, text=True, env=environment() | variables
    )
    return [json.loads(line)["ok"] for line in done.stdout.splitlines()], done.stderr


def test_it_is_off_unless_it_is_asked_for(farmrt_program: Path) -> None:
    assert serve(farmrt_program) == ([True] * 4, "")


@pytest.mark.parametrize("how", ["option", "environment", "command"])
def test_it_is_asked_for(farmrt_program: Path, how: str) -> None:
    words = ["--log=info"] if how == "option" else []
    variables = {"FARMRT_LOG": "info"} if how == "environment" else {}
    oks, said = serve(farmrt_program, *words, level="info", **variables)
    assert oks == [True] * 4
    lines = said.splitlines()
    assert all(line.startswith("farmrt: info: ") for line in lines)
    assert sum("probe: ok after" in line for line in lines) == (1 if how == "command" else 2)


def test_debug_says_more_than_info(farmrt_program: Path) -> None:
    _, said = serve(farmrt_program, level="debug")
    assert "farmrt: debug: OpenCL library /nonexistent: not there, or no library\n" in said


def test_an_unknown_level(farmrt_program: Path) -> None:
    assert serve(farmrt_program, level="loud")[0] == [True, False, True, True]
    assert serve(farmrt_program, FARMRT_LOG="loud") == ([True] * 4, "")
    done = subprocess.run([farmrt_program, "--log=loud", "serve"], capture_output=True, text=True)
    assert done.returncode == 2 and "--log=off|info|debug" in done.stderr
