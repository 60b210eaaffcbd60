"""OpenCL that is behind something: Pixel's loader, and drivers that only the namespace of vendors' drivers opens."""

from pathlib import Path

import numpy as np
import pytest

from farm.farmrt.drivers import Driver
from runtime.errors import DeviceError
from runtime.lowering.lower import lower
from runtime.native.build import build_farmrt
from runtime.native.compiling import run_compiler
from runtime.native.toolchains import find_toolchain
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import open_device, target_of_device
from runtime.reference.executor import Executor
from tests import opencl
from tests.native.fake_driver import fake_driver
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, pool
from tests.native.test_agreement import assert_close, run_on
from tests.runtime.graphs import GraphMaker
from tests.runtime.networks import residual_block

# Gives functions of the driver FAKE_BEHIND, once it was enabled; exports none by its OpenCL name.
PIXEL = """
#include <dlfcn.h>
#include <stdlib.h>
static void *behind;
void enableOpenCL(void) { behind = dlopen(getenv("FAKE_BEHIND"), RTLD_NOW | RTLD_LOCAL); }
void *loadOpenCLPointer(const char *name) { return behind ? dlsym(behind, name) : NULL; }
"""
# Android's library that opens others in the namespace of vendors' drivers: here the driver FAKE_BEHIND for VENDORS.
SUPPORT = """
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
void *android_load_sphal_library(const char *name, int flags) {
    return strcmp(name, getenv("VENDORS")) == 0 ? dlopen(getenv("FAKE_BEHIND"), flags) : NULL;
}
"""
EMPTY = "int nothing;"


def library(folder: Path, name: str, source: str) -> Path:
    """A shared library of this source."""
    (folder / f"{name}.c").write_text(source)
    command = [
        *find_toolchain("host").compiler,
        "-fPIC",
        "-shared",
        "-o",
        str(folder / name),
        str(folder / f"{name}.c"),
    ]
    run_compiler([*command, "-ldl"])
    return folder / name


def probed(farmrt_program: Path, folder: Path, opened: Path, **variables: str) -> dict[str, str]:
    """What farmrt says of OpenCL when it is to use this library."""
    known = {"FAKE_BEHIND": str(fake_driver()), "LD_LIBRARY_PATH": str(folder), "FARM_OPENCL": str(opened)}
    with Farmrt([str(farmrt_program)], folder, variables=known | variables) as farmrt:
        return dict(farmrt.done("probe")["opencl"])


def test_pixels_loader_is_enabled_and_asked(farmrt_program: Path, tmp_path: Path) -> None:
    found = probed(farmrt_program, tmp_path, library(tmp_path, "libOpenCL-pixel.so", PIXEL))
    assert (found["error"], found["origin"], Path(found["library"]).name) == ("", "loader", "libOpenCL-pixel.so")


@pytest.mark.parametrize("source", [EMPTY, None], ids=["without platforms", "that cannot be opened"])
def test_a_library_without_platforms_is_opened_as_a_vendors(
    farmrt_program: Path, tmp_path: Path, source: str | None
) -> None:
    opened = library(tmp_path, "libOpenCL.so", source) if source else tmp_path / "libOpenCL.so"
    if source is None:
        opened.write_bytes(b"no library")
    library(tmp_path, "libvndksupport.so", SUPPORT)
    found = probed(farmrt_program, tmp_path, opened, VENDORS=str(opened))
    assert (found["error"], found["library"]) == ("", str(opened))
    refused = probed(farmrt_program, tmp_path, opened, VENDORS="another")
    assert refused["library"] == "" and "no OpenCL platform" in refused["error"] if source else refused["error"]


def test_a_library_that_is_not_there_is_no_vendors(farmrt_program: Path, tmp_path: Path) -> None:
    library(tmp_path, "libvndksupport.so", SUPPORT)
    missing = tmp_path / "libOpenCL.so"
    assert probed(farmrt_program, tmp_path, missing, VENDORS=str(missing))["library"] == ""


QUALCOMM = "cl_khr_fp16 cl_qcom_perf_hint cl_qcom_priority_hint"
ARM = "cl_khr_fp16 cl_khr_priority_hints cl_khr_throttle_hints"
APPLIED = {"asked": "high", "outcome": "applied"}


class Hinted:
    """What a driver with some extensions was asked for, and what farmrt says of it."""

    def __init__(self, folder: Path, variables: dict[str, str], **hints: str) -> None:
        program = build_farmrt(sanitize=True)
        record = folder / "record"
        plan = PlanBuilder()
        plan.step("f", [pool(plan.scratch(8))], plan.program("kernel void f() {}"), [8], [4])
        variables = variables | {"FAKE_OPENCL_RECORD": str(record)}
        with Farmrt(program, folder, str(program.parent / "libfake_opencl.so"), variables) as farmrt:
            answer = farmrt.load(plan, **hints)
            assert answer["ok"] and farmrt.ask("run")["ok"]
        self.perf, self.priority = answer["perf_hint"], answer["priority_hint"]
        lines = record.read_text().splitlines()
        self.contexts = [line.removeprefix("context").strip() for line in lines if line.startswith("context")]
        self.queues = [line.removeprefix("queue").strip() for line in lines if line.startswith("queue")]


@pytest.mark.slow
def test_qualcomms_are_properties_of_the_context(tmp_path: Path) -> None:
    found = Hinted(tmp_path, {"FAKE_OPENCL_EXTENSIONS": QUALCOMM}, perf_hint="high", priority_hint="low")
    assert found.contexts == ["40c2=40c3 40c9=40cc"]
    assert found.queues == ["1093=0", "1093=2"]
    assert found.perf == APPLIED | {"extension": "cl_qcom_perf_hint"}
    assert found.priority == {"asked": "low", "outcome": "applied", "extension": "cl_qcom_priority_hint"}


@pytest.mark.slow
def test_others_are_properties_of_both_queues(tmp_path: Path) -> None:
    variables = {"FAKE_OPENCL_EXTENSIONS": ARM, "FAKE_OPENCL_VERSION": "3.0"}
    found = Hinted(tmp_path, variables, perf_hint="high", priority_hint="normal")
    assert found.contexts == [""]
    assert found.queues == ["1093=0 1097=1 1096=2", "1093=2 1097=1 1096=2"]
    assert found.perf == APPLIED | {"extension": "cl_khr_throttle_hints"}
    assert found.priority == {"asked": "normal", "outcome": "applied", "extension": "cl_khr_priority_hints"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"FAKE_OPENCL_EXTENSIONS": "cl_qcom_perf_hint2 xcl_qcom_priority_hint"},
        {"FAKE_OPENCL_EXTENSIONS": ARM, "FAKE_OPENCL_VERSION": "1.2"},
    ],
    ids=["none", "other names", "too old for queue properties"],
)
def test_without_the_extension_nothing_is_asked_for(variables: dict[str, str], tmp_path: Path) -> None:
    found = Hinted(tmp_path, variables, perf_hint="high", priority_hint="high")
    assert (found.contexts, found.queues) == ([""], ["1093=0", "1093=2"])
    assert found.perf == found.priority == {"asked": "high", "outcome": "not supported", "extension": ""}


@pytest.mark.slow
def test_what_is_not_asked_for_is_left_to_the_driver(tmp_path: Path) -> None:
    found = Hinted(tmp_path, {"FAKE_OPENCL_EXTENSIONS": QUALCOMM}, priority_hint="high")
    assert found.contexts == ["40c9=40ca"]
    assert found.perf == {"asked": "default", "outcome": "default", "extension": ""}


@pytest.mark.slow
def test_a_refused_property_is_left_out_and_the_other_kept(tmp_path: Path) -> None:
    variables = {"FAKE_OPENCL_EXTENSIONS": QUALCOMM, "FAKE_OPENCL_REFUSE": "40c2"}
    found = Hinted(tmp_path, variables, perf_hint="high", priority_hint="high")
    assert found.contexts[-1] == "40c9=40ca"
    assert found.perf == {"asked": "high", "outcome": "refused", "extension": "cl_qcom_perf_hint"}
    assert found.priority == APPLIED | {"extension": "cl_qcom_priority_hint"}


@pytest.mark.slow
def test_a_refused_property_of_queues_is_left_out_of_both(tmp_path: Path) -> None:
    variables = {"FAKE_OPENCL_EXTENSIONS": ARM, "FAKE_OPENCL_VERSION": "2.1", "FAKE_OPENCL_REFUSE": "1096"}
    found = Hinted(tmp_path, variables, perf_hint="low", priority_hint="high")
    assert found.queues[-1] == "1093=2 1097=4"
    assert found.queues.count("1093=0 1097=4") == 1
    assert found.priority == {"asked": "high", "outcome": "refused", "extension": "cl_khr_priority_hints"}
    assert found.perf["outcome"] == "applied"


@pytest.mark.slow
def test_another_word_is_refused(tmp_path: Path) -> None:
    with Farmrt(build_farmrt(), tmp_path) as farmrt:
        answer = farmrt.load(PlanBuilder(), perf_hint="warp")
    assert (answer["error"], answer["message"]) == ("bad_command", "load: perf_hint: is not one of the known words")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["buffer", "image"])
@pytest.mark.parametrize("driver", opencl.every_driver())
def test_a_network(driver: Driver, memory: str, farmrt_program: Path, tmp_path: Path) -> None:
    maker = GraphMaker()
    graph = residual_block(maker)
    device = opencl.open_once(driver.path)
    plan, inputs = lower(graph, target_of_device(device, memory=memory)), maker.noise()
    reference = Executor(encode_plan(plan), plan.data, device).run(inputs)
    with Farmrt(farmrt_program, tmp_path, library=str(driver.path)) as farmrt:
        actual = run_on(farmrt, plan, inputs)
    expected = evaluate(graph, inputs)
    assert set(expected) >= set(actual)
    for name, values in actual.items():
        assert_close(values, np.asarray(expected[name]), 2e-5)
        assert_close(values, reference[name], 1e-6)


@pytest.mark.parametrize("name", ["libz.so.1", "libnone.so"])
def test_a_library_that_is_no_driver(name: str) -> None:
    with pytest.raises(DeviceError, match=name):
        open_device(name)
