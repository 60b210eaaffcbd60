"""Findings from what a unit answered, and what farm does for them: no unit is asked."""

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.condition.device_state import Sensors
from farm.config.inventory import Unit
from farm.farmrt.answers import ClockAnswer, DeviceAnswer, LaunchesAnswer, LimitsAnswer, WindowAnswer, ZeroCopyAnswer
from farm.jobs.accept import device_findings as found_of
from farm.jobs.accept.kernels import KernelFault, WrongVariant, judged, small_cases
from farm.jobs.accept.load import LoadMoment, LoadRun, sensors_finding, throttling_finding
from farm.rows.device_state import DeviceState
from farm.units import acceptance, facts_cache
from farm.units.acceptance import AcceptanceFinding, Trust
from farm.units.facts import Facts
from farm.units.facts_cache import DriverFacts
from runtime.errors import UnsupportedError
from runtime.kernels.table import KERNELS
from runtime.lowering.lower import Options, lower
from runtime.operators.case import is_rounded
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Precision

GOOD_CLOCK: dict[str, Any] = {
    "ok": True, "events": 64, "reversed": 0, "empty": 0, "backwards": 0, "resolution_ns": 1,
    "events_ns": 90, "wall_ns": 100,
}  # fmt: skip
DEVICE = DeviceAnswer(
    name="GPU", driver="1", version="OpenCL 2.0", compute_units=1, max_work_group_size=512,
    max_work_item_sizes=[512, 512, 64], local_memory_bytes=1, max_allocation_bytes=1 << 28, images=True,
    image2d_max_width=8192, image2d_max_height=8192, fp16=True,
)  # fmt: skip
LIMITS: dict[str, Any] = {
    "tried_allocation_bytes": 1 << 28, "allocation_bytes": 1 << 28, "image_width": 8192, "image_height": 8192,
    "kernel_limit": 256, "group_items": [256, 256, 64],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "is_right"),
    [
        ({}, True),
        ({"reversed": 64}, False),
        ({"empty": 1}, False),
        ({"backwards": 3}, False),
        ({"events_ns": 5}, False),
        ({"events_ns": 500}, False),
        ({"resolution_ns": 10_000_000}, False),
    ],
)
def test_a_clock_that_is_wrong_is_not_believed(changed: dict[str, int], is_right: bool) -> None:
    finding = found_of.clock_finding(ClockAnswer(**GOOD_CLOCK | changed))
    assert (finding.state == "ok", finding.trust.host_times is None) == (is_right, is_right)


def test_times_that_are_played_are_not_held_against_the_hosts() -> None:
    finding = found_of.clock_finding(ClockAnswer(**GOOD_CLOCK | {"events_ns": 500}), is_played=True)
    assert (finding.state, finding.text) == ("ok", "its times are played, resolution 1 ns")


@pytest.mark.parametrize(
    ("needed", "times", "every", "word"),
    [
        (False, {4: 1, 16: 9}, 0, "never"),
        (True, {4: 100, 16: 100, 64: 101}, 16, 16),
        (True, {4: 90, 16: 100, 64: 120}, 4, 4),
    ],
)
def test_the_queue_is_flushed_as_often_as_is_best(
    needed: bool, times: dict[int, int], every: int, word: object
) -> None:
    windows = [WindowAnswer(every=0, ns=200), *(WindowAnswer(every=n, ns=ns) for n, ns in times.items())]
    finding = found_of.launches_finding(LaunchesAnswer(launch_ns=40_000, needs_flush=needed, windows=windows))
    assert (finding.trust.flush_every, finding.trust.load_words["flush_every"]) == (every, word)


@pytest.mark.parametrize(("recorded_ns", "record"), [(0, None), (39_000, None), (5_000, True)])
def test_launches_are_recorded_where_that_is_faster(recorded_ns: int, record: bool | None) -> None:
    windows = [WindowAnswer(every=16, ns=1)]
    for needed in (False, True):
        answer = LaunchesAnswer(launch_ns=40_000, recorded_ns=recorded_ns, needs_flush=needed, windows=windows)
        finding = found_of.launches_finding(answer)
        assert finding.trust.record == finding.trust.load_words["record"] == record
        assert ("launches are recorded once" in finding.effect) is bool(record)


@pytest.mark.parametrize("outcome", ["in place", "copied", "refused", "fails", "wrong", "separate memory"])
def test_weights_are_in_place_only_where_that_was_seen(outcome: str) -> None:
    finding = found_of.zero_copy_finding(ZeroCopyAnswer(outcome=outcome))
    assert finding.trust.load_words["zero_copy"] == (True if outcome == "in place" else None)


@pytest.mark.parametrize(
    ("changed", "limits"),
    [
        ({}, {}),
        ({"allocation_bytes": 100}, {"max_allocation_bytes": 100}),
        ({"image_width": 4096}, {"image2d_max_width": 4096}),
        ({"group_items": [256, 128, 64]}, {"max_work_group_size": 128}),
    ],
)
def test_plans_keep_what_really_works(changed: dict[str, Any], limits: dict[str, int]) -> None:
    finding = found_of.limits_finding(LimitsAnswer(**LIMITS | changed), DEVICE)
    assert finding.trust.device_limits == limits and (finding.state == "ok") == (not limits)


def test_a_device_that_has_no_memory_at_all_fails() -> None:
    assert found_of.limits_finding(LimitsAnswer(**LIMITS | {"allocation_bytes": 0}), DEVICE).state == "failed"


def fault(memory: str, precision: Precision) -> KernelFault:
    return KernelFault(memory, precision, "Relu", "y[0] is 1, the reference says 2")


@pytest.mark.parametrize(
    ("faults", "state", "limits"),
    [
        ([], "ok", {}),
        ([fault("image", Precision.FP32)], "limited", {"images": False}),
        ([fault("buffer", Precision.FP16)], "limited", {"fp16": False}),
        ([fault("image", Precision.FP16), fault("buffer", Precision.FP16)], "limited", {"fp16": False}),
        ([fault("buffer", Precision.FP32)], "failed", {}),
        ([fault("image", Precision.FP32), fault("buffer", Precision.FP16_STORAGE)], "failed", {}),
    ],
)
def test_what_is_wrong_is_not_used_or_fails(faults: list[KernelFault], state: str, limits: dict[str, bool]) -> None:
    finding = judged(faults, 10)
    assert (finding.state, finding.trust.device_limits) == (state, limits)


def test_what_a_driver_does_not_build_is_told_and_no_fault() -> None:
    refused = dict.fromkeys(
        ["conv1x1 buffer fp32 4x4", "conv1x1 buffer fp16 4x4", "pool image fp16 default"], "refused"
    )
    told = judged([], 10, refused)
    assert (told.state, told.trust, told.effect) == ("limited", Trust(), "plans do without 3 variants of kernels")
    assert "3 variants of conv1x1 (buffer), pool (image) do not work: refused" in told.text
    assert judged([], 0, refused).state == "failed", "no kernel is left"
    both = judged([fault("image", Precision.FP32)], 10, refused)
    assert both.trust == Trust(images=False) and both.effect == f"no images; {told.effect}"


def test_a_variant_that_computes_wrongly_is_told_with_the_one_in_its_place() -> None:
    wrong = WrongVariant("conv1x1 buffer fp32 A", "y[0] is 1, the reference says 2", "B")
    told = judged([], 10, {wrong.name: f"computes wrongly: {wrong.fault}"}, [wrong])
    assert (told.state, told.trust, told.effect) == ("limited", Trust(), "plans do without 1 variants of kernels")
    assert f"{wrong.name} computes wrongly ({wrong.fault}): B is right and used" in told.text


def test_operators_for_which_there_was_no_time_are_named() -> None:
    told = judged([], 10, late=("LSTM", "GRU"))
    assert told.state == "limited" and told.text.endswith("no time was left for LSTM, GRU")


def test_what_is_found_later_joins_what_was_found_before() -> None:
    before = judged([fault("image", Precision.FP32)], 10, late=("LSTM", "GRU"))
    told = judged([], 3, before=before)
    assert told.text.endswith("; then 3 right (kernel, memory and precision)") and "no time" not in told.text
    assert (told.trust, told.effect, told.late) == (Trust(images=False), "no images", ())
    assert judged([], 3, before=judged([], 10, late=("LSTM",))).state == "ok"
    assert judged([], 0, before=judged([], 10, late=("LSTM",))).state == "ok", "the device has no kernel of it"
    assert judged([fault("buffer", Precision.FP32)], 3, before=before).state == "failed"


def test_every_case_is_small() -> None:
    cases = list(small_cases())
    assert (
        len(cases) == len({case.name for case in cases}) > 20
        and max(case.graph().tensors["y"].shape[-1] for case in cases if case.op == "Conv") <= 13
    )


def test_every_kernel_of_gpus_is_tried() -> None:
    tried = set()
    for memory, case in itertools.product(("buffer", "image"), small_cases()):
        target = Target("sdm845", "arm64-v8a", gpu_family="mali-bifrost", memory=memory)
        with contextlib.suppress(UnsupportedError):
            plan = lower(case.graph(), target, Options(algorithms=(case.algorithm,)))
            tried |= {step.kernel for step in plan.steps if step.kind == StepKind.OPENCL}
    assert {(each.name, each.memory) for each in set(KERNELS) - tried} == set()


def test_every_operator_has_a_plan_where_a_driver_builds_none_of_its_kernels() -> None:
    """With the CPU for it, as `runtime: cpu+gpu` has."""
    target = Target("sdm845", "arm64-v8a", gpu_family="mali-bifrost", allow_cpu=True)
    names = (each.refused_name(variant, Precision.FP32) for each in KERNELS for variant in each.variants)
    target = dataclasses.replace(target, refused=frozenset(names))
    for case in small_cases():
        plan = lower(case.graph(), target, Options(algorithms=(case.algorithm,)))
        assert {step.kind for step in plan.steps} == {StepKind.CPU}, case.name


ZONE = "/sys/class/thermal/thermal_zone{}/{}"


def sensors(chip: float, other: float, level: int = 83) -> Sensors:
    files = {}
    for number, (kind, value) in enumerate((("cpu-0", chip), ("gpu0", other))):
        files |= {ZONE.format(number, "type"): kind, ZONE.format(number, "temp"): str(round(value * 1000))}
    return Sensors(files, DeviceState(battery_percent=level))


def run_of(others: list[float], times: list[float], **settings: Any) -> LoadRun:
    readings = [
        LoadMoment(10.0 * i, ns, sensors(40 + i, o)) for i, (o, ns) in enumerate(zip(others, times, strict=True))
    ]
    return LoadRun(sensors(30, others[0]), readings, **settings)


STEADY_NS = [100.0] * 6


@pytest.mark.parametrize(
    ("others", "is_long", "ignored"),
    [
        ([31, 32, 33, 34, 35, 36], True, ()),
        ([83.0] * 6, False, ("gpu0",)),
        ([25.0] * 6, True, ("gpu0",)),
        ([25.0] * 6, False, ()),
    ],
)
def test_zones_that_are_no_heat_are_ignored(others: list[float], is_long: bool, ignored: tuple[str, ...]) -> None:
    finding = sensors_finding(run_of(others, STEADY_NS, is_long=is_long))
    assert finding.trust.ignored_zones == ignored and "cpu-0" in finding.text


def test_where_the_kernel_refuses_its_zones_androids_service_tells_of_heat() -> None:
    told = [Sensors({}, DeviceState(temperature_c=30.0 + second)) for second in range(7)]
    readings = [LoadMoment(10.0 * i, 100.0, each) for i, each in enumerate(told[1:])]
    assert sensors_finding(LoadRun(told[0], readings)).text.startswith("Android's thermal service follows the load")
    still = sensors_finding(LoadRun(told[0], [dataclasses.replace(each, sensors=told[0]) for each in readings]))
    assert (still.state, still.trust) == ("limited", Trust()) and still.text.startswith("no zone follows the load")


def test_a_unit_that_throttles_rests_as_long_as_it_needs() -> None:
    steady = throttling_finding(run_of([30.0] * 6, STEADY_NS))
    slow = throttling_finding(run_of([30.0] * 6, [100, 100, 100, 150, 150, 150], rest_s=40.0))
    assert (steady.state, steady.trust) == ("ok", Trust())
    assert (slow.state, slow.trust.rest_s) == ("limited", 40.0) and "since second 30" in slow.text


# --- what is kept ---

UNIT = Unit("mi8", "adb", "sdm845", "MI 8", ("host",), serial="0123")
ZERO_COPY = AcceptanceFinding(check="zero copy", state="ok", text="in place", trust=Trust(zero_copy=True))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    facts_cache.update(UNIT, Facts(os="Android 14", build="one"), DriverFacts(gpu="GPU", driver="1"), tmp_path)
    yield tmp_path


def test_findings_are_in_force_until_the_system_or_the_driver_changes(folder: Path) -> None:
    acceptance.keep(UNIT, ZERO_COPY, folder=folder)
    acceptance.keep(
        UNIT, AcceptanceFinding(check="launches", state="ok", text="", trust=Trust(flush_every=4)), folder=folder
    )
    assert acceptance.trust_of(UNIT, folder) == Trust(zero_copy=True, flush_every=4)
    for known in ({"facts": Facts(os="Android 14", build="two")}, {"driver": DriverFacts(gpu="GPU", driver="2")}):
        facts_cache.update(UNIT, folder=folder, **known)  # type: ignore[arg-type]
        assert acceptance.trust_of(UNIT, folder) == Trust() and acceptance.table_word(UNIT, folder) == "updated"
        facts_cache.update(UNIT, Facts(os="Android 14", build="one"), DriverFacts(gpu="GPU", driver="1"), folder)
    assert acceptance.table_word(UNIT, folder) == datetime.date.today().isoformat()
    for check in ("kernels", "throttling"):
        acceptance.keep(UNIT, AcceptanceFinding(check=check, state="limited", text=""), folder=folder)
    assert acceptance.table_word(UNIT, folder).endswith(", limited: kernels, throttling")


def test_a_damaged_file_and_one_of_another_device_are_none(folder: Path) -> None:
    acceptance.keep(UNIT, ZERO_COPY, folder=folder)
    assert acceptance.kept(dataclasses.replace(UNIT, serial="another"), folder) is None
    acceptance.FILE.path(UNIT, folder).write_text("{")
    assert acceptance.kept(UNIT, folder) is None and acceptance.table_word(UNIT, folder) == ""


def test_a_fault_is_a_bad_point_of_the_health_check_until_it_is_tried_again(folder: Path) -> None:
    assert acceptance.check_result(UNIT, folder) == []
    acceptance.keep(UNIT, AcceptanceFinding(check="kernels", state="failed", text="wrong"), folder=folder)
    (result,) = acceptance.check_result(UNIT, folder)
    assert not result.ok and "kernels: wrong" in result.text and "farm accept mi8" in result.text
    acceptance.keep(UNIT, AcceptanceFinding(check="kernels", state="ok", text="right"), folder=folder)
    assert [result.ok for result in acceptance.check_result(UNIT, folder)] == [True]


def test_what_lies_in_the_middle_of_two_steps_may_be_either() -> None:
    exact = np.array([0.64, 0.64, 0.64, 9.0, 9.0], np.float32)
    found = np.array([0.625, 0.65625, 0.59375, 3.96875, 3.9375], np.float32)
    assert is_rounded(found, exact, 0.0).tolist() == [True, False, False, True, False]
    assert is_rounded(found, exact, 0.001).tolist() == [True, True, False, True, False]
    assert is_rounded(found + 0.001, exact, 0.001).tolist() == [False] * 5
