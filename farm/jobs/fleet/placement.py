"""Where the steps of a loaded plan run: how many on the GPU and on the CPU, and whose time it is."""

from __future__ import annotations

from collections.abc import Sequence

from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.rows.forecast import CONVERSION_MARK
from farm.rows.run import Placement
from runtime.plan.plan import Step
from runtime.plan.records import StepKind


def placement_of(steps: Sequence[Step], step_ns: Sequence[float] = ()) -> Placement:
    """Counts steps; `step_ns` are the times of all, conversions included, where they were measured."""
    counted = [step for step in steps if CONVERSION_MARK not in step.note]
    on_cpu = [step for step in counted if step.kind == StepKind.CPU]
    has_gpu = len(on_cpu) < len(counted)
    gpu_ns = sum(ns for step, ns in zip(steps, step_ns, strict=True) if step.kind != StepKind.CPU) if step_ns else 0.0
    return Placement(
        gpu=len(counted) - len(on_cpu),
        cpu=len(on_cpu),
        gpu_time_share=gpu_ns / sum(step_ns) if any(step_ns) else None,
        cpu_types=tuple(dict.fromkeys(step.op for step in on_cpu)) if has_gpu else (),
    )


def measured_placement(opened: OpenUnit, steps: Sequence[Step], round_ms: float) -> Placement:
    """The same with the time of each side, of one more round, where both have steps."""
    if len({step.kind for step in steps}) < 2:
        return placement_of(steps)
    answer = opened.session.run(1, rounds_deadline_s(1, round_ms), profile=True)
    return placement_of(steps, [step.ns[0] for step in answer.steps])
