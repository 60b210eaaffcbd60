"""Every kernel in every variant on played GPUs, by farmrt: right, in smaller groups where its own limit needs them.

Kernels and variants take turns over the profiles: a run tries each once, FARM_EXHAUSTIVE=1 each on every profile, which
takes a quarter of an hour of a core. Of the two precisions a run takes one for each; 11 turns later the other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from farm.emulation.played_gpu import played_environment, profile_names
from farm.jobs.accept.case_batch import CaseRunner, CasesPlan
from farm.jobs.accept.kernels import small_cases
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import DeviceError, UnsupportedError
from runtime.families.attention.translation import attention_case
from runtime.kernels.spec import Kernel, MemoryType, Variant
from runtime.kernels.table import KERNELS
from runtime.lowering.lower import Options, lower
from runtime.operators.case import OperatorCase
from runtime.plan.encode import encode_plan
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
    plain = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "group": 1}
    few = [
        OperatorCase(f"{count} pixels", "Conv", ((1, 8, 1, count),), ((64, 8, 1, 1), (64,)), plain) for count in (2, 3)
    ]
    return sorted(
        (*small_cases(), *CASES, *heads, *few), key=lambda case: plan.macs if (plan := lowered(case, WIDE)) else 0
    )


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
    return plan if plan and has(plan, program) else None


def has(plan: Plan, program: Program) -> bool:
    """Whether a plan launches a program."""
    return any((step.kernel, step.variant) == program for step in plan.steps)


def of_turn(profile: str, precision: Precision) -> list[Program]:
    """The programs whose turn it is on a profile in a precision."""
    precisions = device_precisions(False)
    return [
        program
        for number, program in enumerate(PROGRAMS)
        if profile in opencl.turn(number, PROFILES)
        and precision == precisions[(number + opencl.TURN) // len(PROFILES) % len(precisions)]
    ]


@dataclasses.dataclass(frozen=True)
class Launch:
    """A program in the plan of a case."""

    program: Program
    case: OperatorCase
    plan: Plan

    @property
    def digest(self) -> bytes:
        """Names what is computed: all of the plan but the GPU that it was made for."""
        plan = dataclasses.replace(self.plan, target=dataclasses.replace(self.plan.target, gpu_family=""))
        return hashlib.sha256(encode_plan(plan)).digest()  # with a checksum of the weights

    def told(self, profile: str, text: str) -> str:
        """A line that names the program and what is wrong with it."""
        (kernel, variant), target = self.program, self.plan.target
        where = f"{kernel.name}/{target.memory}/{target.precision.label} {variant.name}"
        return f"{profile}: {where}, {self.case.name}: {text}"


class Sweep:
    """Tries programs on one GPU after the other; what was right on one is not computed on the next.

    Another GPU has other limits, which one that computes nothing (`mode=timing`) refuses just so. What is computed
    depends on the plan alone, and on the groups of its launches where these are smaller than planned.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._right: set[tuple[bytes, str]] = set()

    def faults(self, profile: str, precision: Precision) -> Iterator[str]:
        """What is wrong with the programs whose turn it is on a profile."""
        wanted, left = of_turn(profile, precision), list[Launch]()
        if not wanted:
            return
        with self._played(profile, "mode=timing") as opened:
            for launch in launches(opened, wanted, precision):
                text, smaller = fitted(opened, launch.plan)
                if text:
                    yield launch.told(profile, text)
                elif self._is_new(launch, profile if smaller else ""):
                    left.append(launch)
        if left:
            with self._played(profile, "mode=computing") as opened:
                runner = CaseRunner(opened)
                yield from (launch.told(profile, text) for launch in left if (text := computed(runner, launch)))

    def _is_new(self, launch: Launch, groups: str) -> bool:
        before = len(self._right)
        self._right.add((launch.digest, groups))
        return len(self._right) > before

    @contextlib.contextmanager
    def _played(self, profile: str, mode: str) -> Iterator[OpenUnit]:
        for name, value in played_environment(f"{profile}{',' if ':' in profile else ':'}{mode}").items():
            self._patch.setenv(name, value)
        (unit,) = lookup.chosen_units(Selection(devices=("host",)))
        with open_unit(unit) as opened:
            yield opened


def launches(opened: OpenUnit, wanted: Sequence[Program], precision: Precision) -> Iterator[Launch]:
    for memory in MemoryType:
        target = opened.probe.target(opened.unit.soc, memory=memory, precision=precision)
        for program, case, plan in plans(target, [each for each in wanted if each[0].memory == memory]):
            yield Launch(program, case, plan)


def fitted(opened: OpenUnit, plan: Plan) -> tuple[str, int]:
    """What a GPU refuses of a plan, empty where it does not; how many groups are smaller than planned."""
    try:
        smaller = CasesPlan(opened, plan).load().smaller_groups
        opened.first_round()
    except DeviceError as error:
        return str(error), 0
    return "", smaller


def computed(runner: CaseRunner, launch: Launch) -> str:
    """What is wrong with the output of a launch; empty where nothing is, or PoCL lacks what the GPU is told to have."""
    given = launch.plan.target
    target = runner.opened.probe.target(given.soc, memory=given.memory, precision=given.precision)
    if not (plan := plan_with(launch.case, target, launch.program)):
        return ""
    (result,) = runner.results([launch.case], plan.target)
    if result.fault or result.plan is None:
        return result.fault or "no plan is left"
    return "" if has(result.plan, launch.program) else "the driver refuses it"


@pytest.mark.slow
@pytest.mark.parametrize("precision", device_precisions(False), ids=lambda precision: precision.label)
def test_every_variant_is_right_on_a_played_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, precision: Precision
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = Sweep(monkeypatch)
    found = [fault for profile in PROFILES for fault in sweep.faults(profile, precision)]
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
