"""farmrt for phones and boards, executed: in qemu with Debian's C library, which stands in for Android's too."""

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.lowering.lower import Options, lower
from runtime.native import build
from runtime.native.build import build_farmrt
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.types import Precision
from tests.conftest import require
from tests.native import (
    qemu,
    test_build_ahead,
    test_cpu_blocked,
    test_cpu_operators,
    test_fixed_point,
    test_found_steps,
    test_quantized_convolution,
    test_quantized_operators,
)
from tests.native.farmrt import Farmrt
from tests.native.qemu import Machine
from tests.native.test_agreement import CPU, NetworkMaker, assert_close, run_on
from tests.native.test_serve import check_hashes
from tests.runtime.blocked_networks import winograd
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import classifier, depthwise_and_groups, integer_weights, residual_block

pytestmark = pytest.mark.slow

FAKE_OPENCL = Path(build.__file__).parent / "fuzz" / "fake_opencl.c"
SEARCHED = {
    "arm64-v8a": {
        "/vendor/lib64/libOpenCL.so",
        "/system/vendor/lib64/egl/libGLES_mali.so",
        "/vendor/lib64/libPVROCL.so",
    },
    "arm64": {"libOpenCL.so.1", "/usr/lib/aarch64-linux-gnu/mali/libmali.so.1", "/vendor/lib64/libOpenCL.so"},
    "armhf": {"/vendor/lib/libOpenCL.so", "/system/lib/libGLES_mali.so", "/usr/lib/arm-linux-gnueabihf/libmali.so"},
}


@pytest.fixture(scope="module", params=list(qemu.QEMU))
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    require("qemu", qemu.missing(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANDROID_NDK_HOME", raising=False)
        build_farmrt(request.param)
    return qemu.make_machine(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
def farmrt(machine: Machine, tmp_path: Path) -> Iterator[Farmrt]:
    with Farmrt(machine.command(program(machine)), tmp_path) as running:
        yield running


def program(machine: Machine) -> Path:
    return build.default_output_dir() / machine.abi / "farmrt"


def run(machine: Machine, *words: str | Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(machine.command(program(machine), *words), capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout or "{}")


def test_probe_without_opencl_says_where_it_looked(machine: Machine) -> None:
    status, answer = run(machine, "probe")
    assert (status, answer["ok"], answer["abi"]) == (0, True, machine.abi)
    assert answer["page_bytes"] == 4096
    assert answer["memory_bytes"] > 1 << 28
    features = set(answer["cpu"]["features"])  # the emulated CPU's, whatever /proc/cpuinfo says of this one
    assert ("neon" if machine.abi == "armhf" else "asimd") in features and not features & {"fma", "avx", "avx2"}
    opencl = answer["opencl"]
    assert (opencl["library"], "device" in opencl) == ("", False)
    assert SEARCHED[machine.abi] <= set(opencl["searched"])
    assert len(set(opencl["searched"])) == len(opencl["searched"])
    assert opencl["error"].startswith("no OpenCL library in /vendor/lib")
    assert opencl["error"].endswith("; name one with opencl= or FARM_OPENCL")


def test_hashes_are_sha256(machine: Machine, tmp_path: Path) -> None:
    """arm64 has instructions for it, armhf the portable form."""
    check_hashes(machine.command(program(machine)), tmp_path)


def test_exit_status_and_errors(machine: Machine, tmp_path: Path) -> None:
    assert run(machine) == (2, {})
    missing = tmp_path / "missing"
    status, answer = run(machine, "run", f"plan={missing}", f"data={missing}")
    assert status == 1
    assert answer == {"ok": False, "error": "io", "message": f"{missing}: cannot be opened: No such file or directory"}


@pytest.mark.parametrize(
    "network",
    [residual_block, depthwise_and_groups, classifier, winograd, integer_weights],
    ids=lambda made: made.__name__,
)
def test_cpu_plans_compute_the_graph(farmrt: Farmrt, network: NetworkMaker) -> None:
    """On as many threads as there are CPUs, every operator's output compared."""
    maker = GraphMaker()
    graph = network(maker)
    inputs = maker.noise()
    expected = evaluate(graph, inputs)
    plan = lower(graph, CPU, Options(keep=graph.layers))
    for name, values in run_on(farmrt, plan, inputs).items():
        assert_close(values, expected[name], 2e-5)


@pytest.mark.parametrize("block", test_cpu_blocked.BLOCKS)
@pytest.mark.parametrize("name", test_cpu_blocked.CASES)
def test_operators_on_blocked_tensors(farmrt: Farmrt, name: str, block: int) -> None:
    test_cpu_blocked.check(farmrt, test_cpu_blocked.CASES[name].launch(block), tolerance=2e-4)


@pytest.mark.parametrize("name", test_cpu_blocked.HALVES)
def test_blocked_convolutions_with_weights_in_half(farmrt: Farmrt, name: str) -> None:
    test_cpu_blocked.check_halves(farmrt, name, 8)


@pytest.mark.parametrize("block", test_cpu_blocked.BLOCKS)
@pytest.mark.parametrize("name", [name for name, case in test_cpu_blocked.HALVES.items() if not case.winograd])
def test_blocked_convolutions_in_half(farmrt: Farmrt, name: str, block: int) -> None:
    test_cpu_blocked.check_half_sums(farmrt, name, block)


def test_products_with_weights_in_half(farmrt: Farmrt) -> None:
    test_cpu_operators.check_every_half(farmrt)
    for case in test_cpu_operators.HALF_CASES.values():
        test_cpu_operators.check(farmrt, case)


def test_recurrent_weights_in_blocks(farmrt: Farmrt) -> None:
    for case in test_cpu_operators.RECURRENT_CASES.values():
        test_cpu_operators.check(farmrt, case)


@pytest.mark.parametrize("rows", [1, 5, 131])
def test_products_in_half(machine: Machine, farmrt: Farmrt, rows: int) -> None:
    """Few rows are bound by memory, and multiplied in floats; weights lie in half in any case."""
    maker = GraphMaker()
    y = maker.add(
        "FullyConnected", maker.input(rows, 301), maker.weights(43, 301), maker.weights(43), activation="relu"
    )
    graph, inputs = maker.finish(y), maker.noise()
    expected = evaluate(graph, inputs)[y]
    made = {}
    for precision in (Precision.FP16_STORAGE, Precision.FP16):
        made[precision] = run_on(farmrt, lower(graph, dataclasses.replace(CPU, precision=precision)), inputs)[y]
        assert_close(made[precision], expected, 1e-2)
    differs = (made[Precision.FP16] != made[Precision.FP16_STORAGE]).any()
    assert differs == (rows > 2 and machine.abi != "armhf")


@pytest.mark.parametrize("isa", ["generic", "dotprod", "i8mm"])
@pytest.mark.parametrize("block", test_cpu_blocked.BLOCKS)
@pytest.mark.parametrize("name", test_quantized_convolution.CASES)
def test_convolutions_in_eight_bits(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    test_quantized_convolution.check(farmrt, test_quantized_convolution.CASES[name], block, isa)


@pytest.mark.parametrize("isa", ["generic", "dotprod", "i8mm"])
@pytest.mark.parametrize("name", test_fixed_point.CASES)
def test_eight_bits_by_fixed_point(farmrt: Farmrt, name: str, isa: str) -> None:
    test_fixed_point.check(farmrt, name, 8, isa)


@pytest.mark.parametrize("isa", ["generic", "dotprod", "i8mm"])
@pytest.mark.parametrize("name", test_found_steps.CASES)
def test_eight_bits_of_found_ranges(farmrt: Farmrt, name: str, isa: str) -> None:
    test_found_steps.check(farmrt, name, 8, isa)


@pytest.mark.parametrize("name", test_quantized_operators.CASES)
def test_operators_in_eight_bits(farmrt: Farmrt, name: str) -> None:
    test_quantized_operators.check(farmrt, name, 8)


def test_more_threads_than_cpus(farmrt: Farmrt) -> None:
    maker = GraphMaker()
    graph = residual_block(maker)
    inputs, plan = maker.noise(), lower(graph, CPU)
    assert farmrt.load_files(encode_plan(plan), plan.data, threads=5)["cpu"]["threads"] == 5
    for name, values in inputs.items():
        farmrt.input(name, values)
    farmrt.done("run", rounds=20)
    expected = evaluate(graph, inputs)
    for tensor in plan.outputs:
        assert_close(farmrt.output(tensor.name).reshape(tensor.shape), expected[tensor.name], 2e-5)


PLACES = {
    "arm64-v8a": ["vendor/lib64/libOpenCL.so", "system/lib64/egl/libGLES_mali.so", "system/vendor/lib64/libPVROCL.so"],
    "arm64": ["usr/lib/aarch64-linux-gnu/mali/libmali.so.1", "lib/libOpenCL.so.1"],
    "armhf": ["vendor/lib/egl/libGLES_mali.so", "usr/local/lib/libOpenCL.so"],
}


def copy_of(machine: Machine, root: Path) -> Machine:
    """The machine again, with a `lib` that files can be added to."""
    shutil.copytree(machine.root, root, symlinks=True, dirs_exist_ok=True)
    (root / "lib").unlink()
    shutil.copytree(qemu.DEBIAN_LIBRARIES[machine.abi], root / "lib", symlinks=True)
    return Machine(machine.abi, root)


@pytest.fixture(scope="module")
def opencl(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that has a device, for this machine."""
    library = tmp_path_factory.mktemp("opencl") / "library.so"
    qemu.compile_library(machine.abi, FAKE_OPENCL, library)
    return library


def test_opencl_is_found_where_vendors_keep_it(machine: Machine, opencl: Path, tmp_path: Path) -> None:
    for number, place in enumerate(PLACES[machine.abi]):
        other = copy_of(machine, tmp_path / str(number))
        target = other.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(opencl, target)
        found = run(other, "probe")[1]["opencl"]
        assert found["library"] == f"/{place}", found
        assert found["searched"][-1] in (f"/{place}", Path(place).name)
        assert found["device"]["name"]


def test_a_registered_driver_is_found_without_a_loader(machine: Machine, opencl: Path, tmp_path: Path) -> None:
    other = copy_of(machine, tmp_path / "root")
    vendors = other.root / "etc" / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (vendors / "a.icd").write_text("/opt/none.so\n")
    (vendors / "b.icd").write_text("/opt/driver.so\nsecond line\n")
    (vendors / "c.txt").write_text("/opt/driver.so\n")
    shutil.copytree(opencl.parent, other.root / "opt")
    (other.root / "opt" / opencl.name).rename(other.root / "opt" / "driver.so")
    found = run(other, "probe")[1]["opencl"]
    assert found["searched"][-2:] == ["/opt/none.so", "/opt/driver.so"]
    assert found["library"] == "/opt/driver.so"


def test_a_library_that_is_named_is_the_only_one_tried(machine: Machine, opencl: Path, tmp_path: Path) -> None:
    other = copy_of(machine, tmp_path / "root")
    (other.root / "opt").mkdir()
    shutil.copy(opencl, other.root / "opt" / "mine.so")
    found = run(other, "probe", "opencl=/opt/mine.so")[1]["opencl"]
    assert (found["library"], found["searched"]) == ("/opt/mine.so", ["/opt/mine.so"])
    found = run(other, "probe", "opencl=/opt/none.so")[1]["opencl"]
    assert (found["library"], found["searched"]) == ("", ["/opt/none.so"])
    assert "none.so" in found["error"]


def test_a_program_is_built_beside_a_trial(machine: Machine, opencl: Path, tmp_path: Path) -> None:
    other = copy_of(machine, tmp_path / "root")
    shutil.copytree(opencl.parent, other.root / "opt")
    variables = {"FAKE_OPENCL_BUILD_MS": "100"}
    with Farmrt(other.command(program(other)), tmp_path, f"/opt/{opencl.name}", variables) as farmrt:
        assert farmrt.load(test_build_ahead.plan())["ok"]
        first = farmrt.done("trial", step=0, reps=1, ahead_options="-DNEXT")
        second = farmrt.done("trial", step=0, reps=1, options="-DNEXT", ahead_options="-DLAST")
        assert first["building"] and second["build_ms"] >= 100
        farmrt.done("unload")
    assert farmrt.process.returncode == 0
