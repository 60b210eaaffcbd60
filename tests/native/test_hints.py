"""Hints to the driver: asked of it where the device lists their extension, told where it has none or refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.native.build import build_farmrt
from tests.native.farmrt import Farmrt
from tests.native.plans import PlanBuilder, pool

pytestmark = pytest.mark.slow

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


def test_qualcomms_are_properties_of_the_context(tmp_path: Path) -> None:
    found = Hinted(tmp_path, {"FAKE_OPENCL_EXTENSIONS": QUALCOMM}, perf_hint="high", priority_hint="low")
    assert found.contexts == ["40c2=40c3 40c9=40cc"]
    assert found.queues == ["1093=0", "1093=2"]
    assert found.perf == APPLIED | {"extension": "cl_qcom_perf_hint"}
    assert found.priority == {"asked": "low", "outcome": "applied", "extension": "cl_qcom_priority_hint"}


def test_others_are_properties_of_both_queues(tmp_path: Path) -> None:
    variables = {"FAKE_OPENCL_EXTENSIONS": ARM, "FAKE_OPENCL_VERSION": "3.0"}
    found = Hinted(tmp_path, variables, perf_hint="high", priority_hint="normal")
    assert found.contexts == [""]
    assert found.queues == ["1093=0 1097=1 1096=2", "1093=2 1097=1 1096=2"]
    assert found.perf == APPLIED | {"extension": "cl_khr_throttle_hints"}
    assert found.priority == {"asked": "normal", "outcome": "applied", "extension": "cl_khr_priority_hints"}


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


def test_what_is_not_asked_for_is_left_to_the_driver(tmp_path: Path) -> None:
    found = Hinted(tmp_path, {"FAKE_OPENCL_EXTENSIONS": QUALCOMM}, priority_hint="high")
    assert found.contexts == ["40c9=40ca"]
    assert found.perf == {"asked": "default", "outcome": "default", "extension": ""}


def test_a_refused_property_is_left_out_and_the_other_kept(tmp_path: Path) -> None:
    variables = {"FAKE_OPENCL_EXTENSIONS": QUALCOMM, "FAKE_OPENCL_REFUSE": "40c2"}
    found = Hinted(tmp_path, variables, perf_hint="high", priority_hint="high")
    assert found.contexts[-1] == "40c9=40ca"
    assert found.perf == {"asked": "high", "outcome": "refused", "extension": "cl_qcom_perf_hint"}
    assert found.priority == APPLIED | {"extension": "cl_qcom_priority_hint"}


def test_a_refused_property_of_queues_is_left_out_of_both(tmp_path: Path) -> None:
    variables = {"FAKE_OPENCL_EXTENSIONS": ARM, "FAKE_OPENCL_VERSION": "2.1", "FAKE_OPENCL_REFUSE": "1096"}
    found = Hinted(tmp_path, variables, perf_hint="low", priority_hint="high")
    assert found.queues[-1] == "1093=2 1097=4"
    assert found.queues.count("1093=0 1097=4") == 1
    assert found.priority == {"asked": "high", "outcome": "refused", "extension": "cl_khr_priority_hints"}
    assert found.perf["outcome"] == "applied"


def test_another_word_is_refused(tmp_path: Path) -> None:
    with Farmrt(build_farmrt(), tmp_path) as farmrt:
        answer = farmrt.load(PlanBuilder(), perf_hint="warp")
    assert (answer["error"], answer["message"]) == ("bad_command", "load: perf_hint: is not one of the known words")
