"""farmrt for phones on Android's own C library, in qemu: probe, a network, the serve protocol, a kill and a restart.

FARM_BIONIC names a folder with a real bionic: `system/bin/linker64` and `system/lib64` with libc.so, libm.so and
libdl.so of a 64-bit phone, each a file and no link (`cp -L`). None is shipped. The stand-in of other tests, glibc under
bionic's names, shows that the tests themselves are right.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import zoo
from runtime.convert import convert
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.target import Target
from tests.conftest import require
from tests.native import qemu
from tests.native.farmrt import Farmrt
from tests.native.qemu import Machine
from tests.native.test_agreement import assert_close
from tests.runtime.test_networks import noise, outputs_of_onnxruntime

pytestmark = pytest.mark.slow

ABI = "arm64-v8a"
VARIABLE = "FARM_BIONIC"
NEEDED = ("system/bin/linker64", "system/lib64/libc.so", "system/lib64/libm.so", "system/lib64/libdl.so")
SIZE = 96
TOLERANCE = 1e-4


def real_machine() -> Machine:
    """The machine whose C library is a phone's; skips, with the reason, where none is given."""
    folder = os.environ.get(VARIABLE, "")
    missing = [path for path in NEEDED if not Path(folder, path).is_file()]
    require("bionic", "" if folder else f"{VARIABLE}=DIR names no folder with Android's linker64 and C library")
    require("bionic", f"{VARIABLE}: {folder} lacks {', '.join(missing)}" if missing else "")
    return Machine(ABI, Path(folder).absolute())


@pytest.fixture(scope="module", params=["stand-in", "real"])
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    require("qemu", qemu.missing(ABI))
    if request.param == "real":
        return real_machine()
    return qemu.make_machine(ABI, tmp_path_factory.mktemp("bionic"))


@pytest.fixture(scope="module")
def command(machine: Machine) -> list[str]:
    """What runs the farmrt that phones get, built without an NDK."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANDROID_NDK_HOME", raising=False)
        return machine.command(build_farmrt(ABI))


@pytest.fixture
def farmrt(command: list[str], tmp_path: Path) -> Iterator[Farmrt]:
    with Farmrt(command, tmp_path) as running:
        yield running


def squeezenet(farmrt: Farmrt, threads: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What SqueezeNet computes on the CPU, and what ONNX Runtime does."""
    model = zoo.build("squeezenet_v11", size=SIZE)
    inputs = noise(model)
    graph, _ = convert(model, {name: values.shape for name, values in inputs.items()})
    plan = lower(graph, Target("phone", ABI, memory="cpu"))
    farmrt.run_loaded(farmrt.load_files(encode_plan(plan), plan.data, threads=threads), inputs, rounds=2)
    return {each.name: farmrt.output(each.name).reshape(each.shape) for each in plan.outputs}, outputs_of_onnxruntime(
        model, inputs
    )


def test_it_probes_the_cpu_that_it_runs_on(farmrt: Farmrt) -> None:
    probe = farmrt.done("probe")
    features = set(probe["cpu"]["features"])
    assert probe["abi"] == ABI and probe["cpu"]["cores"] >= 1
    assert "asimd" in features and not features & {"fma", "avx2"}
    assert probe["opencl"]["error"]


@pytest.mark.parametrize("threads", [1, 3])
def test_squeezenet_is_right_on_the_cpu(farmrt: Farmrt, threads: int) -> None:
    actual, expected = squeezenet(farmrt, threads)
    for name, values in expected.items():
        assert_close(actual[name], values, TOLERANCE)


def test_a_wrong_command_is_an_answer_and_the_next_one_works(farmrt: Farmrt, tmp_path: Path) -> None:
    assert farmrt.ask("run")["ok"] is False
    assert farmrt.ask("nonsense")["error"] == "bad_command"
    missing = farmrt.ask("load", plan=tmp_path / "missing", data=tmp_path / "missing")
    assert (missing["error"], "No such file" in missing["message"]) == ("io", True)
    assert farmrt.done("memory")["peak_resident_bytes"] > 0


def test_one_that_was_killed_is_started_again(command: list[str], tmp_path: Path) -> None:
    outputs = []
    for _ in range(2):
        with Farmrt(command, tmp_path) as running:
            outputs.append(squeezenet(running, 2)[0])
            running.process.kill()
    first, again = outputs
    assert all((first[name] == again[name]).all() for name in first)


def test_the_end_of_its_input_ends_it(command: list[str], tmp_path: Path) -> None:
    with Farmrt(command, tmp_path) as running:
        running.done("memory")
    assert running.process.returncode == 0
