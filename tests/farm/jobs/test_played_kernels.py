"""Every kernel in every variant on played GPUs, by farmrt: right, in smaller groups where its own limit needs them.

Kernels and variants take turns over the profiles: a run tries each once, FARM_EXHAUSTIVE=1 each on every profile.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from farm.emulation.played_gpu import played_environment, profile_names
from farm.jobs.accept.case_batch import CaseRunner
from farm.jobs.accept.kernels import small_cases
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import UnsupportedError
from runtime.families.attention.translation import attention_case
from runtime.kernels.spec import Kernel, MemoryType, Variant
from runtime.kernels.table import KERNELS
from runtime.lowering.lower import Options, lower
from runtime.operators.case import OperatorCase
from runtime.plan.plan import Plan
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Precision, device_precisions
from tests import opencl

pytestmark = pytest.mark.opencl

# The last one's registers are so few that planned work groups are too large for most kernels.
PROFILES = (*profile_names(), "mali-g52:registers_kb=12")
WIDE = Target(soc="host", abi="host", gpu_family="mali-valhall", fp16=True, subgroups=True, local_memory_bytes=1 << 16)
Program = tuple[Kernel, Variant]
PROGRAMS: list[Program] = [(kernel, variant) for kernel in KERNELS for variant in kernel.variants]


@functools.cache
def cases() -> Sequence[OperatorCase]:
    """Those of the fewest products first: work items that wait for each other take PoCL long.

    Some with heads as narrow as a vector, since PoCL compiles each barrier between the sums of a head's values.
    """
    heads = [attention_case(5, 2, elements) for elements in (4, 8, 16)]
    return sorted((*small_cases(), *CASES, *heads), key=lambda case: plan.macs if (plan := lowered(case, WIDE)) else 0)


def lowered(case: OperatorCase, target: Target) -> Plan | None:
    """The plan of a case; None where the device's limits do not admit it."""
    try:
        return lower(case.graph(), target, Options(algorithms=(case.algorithm,)))
    except UnsupportedError:
        return None


def plans(target: Target, wanted: Sequence[Program]) -> Iterator[tuple[Program, OperatorCase, Plan]]:
    """A plan with each of these programs, of the first case that becomes one: all other variants count as refused."""
    left = dict.fromkeys(wanted)
    for case in cases():
        base = lowered(case, target)
        for kernel in {step.kernel for step in base.steps if step.kind == StepKind.OPENCL} if base else ():
            for program in [each for each in left if each[0] is kernel]:
                if plan := plan_with(case, target, program):
                    del left[program]
                    yield program, case, plan


def plan_with(case: OperatorCase, target: Target, program: Program) -> Plan | None:
    """The plan of a case in which a kernel has a variant; None where the device's limits do not admit it."""
    kernel, wanted = program
    refused = {kernel.refused_name(each, target.precision) for each in kernel.variants if each != wanted}
    plan = lowered(case, dataclasses.replace(target, refused=frozenset(refused)))
    has_it = plan and any(step.kernel is kernel and step.variant == wanted for step in plan.steps)
    return plan if has_it else None


def of_turn(profile: str) -> Iterator[tuple[MemoryType, Precision, list[Program]]]:
    """The programs whose turn it is on a profile, by memory and precision, which take turns too."""
    precisions = device_precisions(False)
    for memory in MemoryType:
        for place, precision in enumerate(precisions):
            yield (
                memory,
                precision,
                [
                    program
                    for number, program in enumerate(PROGRAMS)
                    if program[0].memory == memory
                    and profile in opencl.turn(number, PROFILES)
                    and (opencl.EXHAUSTIVE or (number + opencl.TURN) // len(PROFILES) % len(precisions) == place)
                ],
            )


def faults(opened: OpenUnit, profile: str) -> Iterator[str]:
    for memory, precision, wanted in of_turn(profile):
        target = opened.probe.target(opened.unit.soc, memory=memory, precision=precision)
        for (kernel, variant), case, plan in plans(target, wanted):
            (result,) = CaseRunner(opened).results([case], plan.target)
            text = result.fault
            # farmrt makes only those groups smaller whose work items do without each other, or with fewer.
            if text and (kernel.splittable or kernel.one_group or "the kernel's limit is" not in text):
                yield f"{kernel.name}/{memory}/{precision.label} {variant.name}, {case.name}: {text}"


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_every_variant_is_right_on_a_played_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in played_environment(profile).items():
        monkeypatch.setenv(name, value)
    (unit,) = lookup.chosen_units(Selection(devices=("host",)))
    with open_unit(unit) as opened:
        found = list(faults(opened, profile))
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_variant_has_a_case_of_its_own() -> None:
    """In some precision, on a device that admits it; half arithmetic, which alone has runs, is not computed here."""
    left = dict.fromkeys(program for program in PROGRAMS if not program[1].get("RUN"))
    for memory in MemoryType:
        for precision in device_precisions(False):
            target = dataclasses.replace(WIDE, memory=memory, precision=precision)
            for program, _, _ in list(plans(target, [each for each in left if each[0].memory == memory])):
                del left[program]
    assert not [f"{kernel.name}/{kernel.memory} {variant.name}" for kernel, variant in left]
