"""Finds the kernels that a GPU's driver does not build, so that plans are made of others.

Compilers of phones run out of registers, or crash, on one variant of a kernel and build the next. What was found is
kept for the unit and its driver (`build/units/<name>/kernels.json`), and lowering passes over it (`Target.refused`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from farm.jobs.fleet.unit import OpenUnit
from farm.units import tried_kernels
from runtime.errors import DeviceError, JobError, ProcessEndedError, ProcessKilledError
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind
from runtime.types import Precision

PASSES = 10  # each finds all that one plan has; the plan after it has others
MOST_VARIANTS = 5  # of a kernel; where so many are refused, all are taken to be
BUILD_DEADLINE_S = 120.0
MAX_FAULT = 200


@dataclasses.dataclass(frozen=True)
class GpuPlan:
    """A plan to be loaded, and what loads it, its kernels made when they are first used."""

    plan: Plan
    load: Callable[[], object]


def is_refusal(error: JobError, opened: OpenUnit) -> bool:
    """Whether the driver may have failed on a program: it said so, or farmrt ended and the unit is still there."""
    if isinstance(error, DeviceError):
        return error.kind == "build_failed"
    return isinstance(error, ProcessEndedError) and not isinstance(error, ProcessKilledError) and bool(opened.answers())


def learn(opened: OpenUnit, gpu_plan: GpuPlan) -> bool:
    """Builds each program of a plan alone, and keeps those that the driver refuses; False where it refuses none."""
    found: dict[str, str] = {}
    _load(opened, gpu_plan)
    driver = opened.probe.driver_key
    known = tried_kernels.refused(opened.unit, driver)
    for index, step in _programs(gpu_plan.plan):
        fault = _fault(opened, gpu_plan, index)
        if fault:
            found[_refused_name(step, gpu_plan.plan)] = fault
            precision = _precision(step, gpu_plan.plan)
            every = {step.kernel.refused_name(variant, precision) for variant in step.kernel.variants}
            if len(every.intersection({*known, *found})) >= MOST_VARIANTS:
                found |= dict.fromkeys(every, fault)
    tried_kernels.refuse(opened.unit, driver, found)
    return bool(found)


def _refused_name(step: Step, plan: Plan) -> str:
    """How `Target.refused` names the program of a step."""
    return step.kernel.refused_name(step.variant, _precision(step, plan))


def _precision(step: Step, plan: Plan) -> Precision:
    return plan.target.precision if step.precision is None else step.precision


def _programs(plan: Plan) -> Iterator[tuple[int, Step]]:
    """A step of each program: the same kernel, variant and options."""
    seen = set()
    for index, step in enumerate(plan.steps):
        key = (_refused_name(step, plan), tuple(sorted(step.defines.items())))
        if step.kind == StepKind.OPENCL and key not in seen:
            seen.add(key)
            yield index, step


def _load(opened: OpenUnit, gpu_plan: GpuPlan) -> None:
    if not opened.session.alive:
        opened.session.respawn()
    gpu_plan.load()


def _fault(opened: OpenUnit, gpu_plan: GpuPlan, index: int) -> str:
    """What the driver says against the program of a step, which is launched once; empty where it builds."""
    try:
        if not opened.session.alive:
            _load(opened, gpu_plan)
        opened.session.trial(BUILD_DEADLINE_S, step=index, reps=1)
    except JobError as error:
        if is_refusal(error, opened):
            return str(error).splitlines()[0][-MAX_FAULT:]
        if not isinstance(error, DeviceError):
            raise
    return ""
