"""Where the steps of a plan run, as rows tell it."""

import types
from typing import Any

import pytest

from farm.jobs.fleet.execution import measured_placement, placement_of
from farm.rows.run import Placement
from runtime.plan.records import StepKind


def step(op: str, kind: StepKind, note: str = "") -> Any:
    return types.SimpleNamespace(op=op, kind=kind, note=note)


GPU, CPU = StepKind.OPENCL, StepKind.CPU
STEPS = [step("Conv2D", GPU), step("Transpose", GPU, "NHWC -> FLAT"), step("TopK", CPU, "no kernel"), step("TopK", CPU)]


def test_conversions_take_time_but_are_no_operators() -> None:
    placed = placement_of(STEPS, [50.0, 25.0, 20.0, 5.0])
    assert placed == Placement(gpu=1, cpu=2, gpu_time_share=0.75, cpu_types=("TopK",))
    assert placement_of(STEPS[2:]) == Placement(gpu=0, cpu=2)


def test_only_a_plan_of_both_is_timed_by_step() -> None:
    opened: Any = types.SimpleNamespace(session=None)
    assert measured_placement(opened, STEPS[:2], 1.0) == Placement(gpu=1, cpu=0)
    answer = types.SimpleNamespace(steps=[types.SimpleNamespace(ns=[ns]) for ns in (3.0, 1.0, 0.0, 4.0)])
    opened.session = types.SimpleNamespace(run=lambda rounds, deadline_s, profile: answer)
    assert measured_placement(opened, STEPS, 1.0).gpu_time_share == pytest.approx(0.5)
