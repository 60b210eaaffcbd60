"""Runs every kernel at small sizes on a unit, under its default variant, and compares with the oracle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES
from farm.jobs.operator_check import TOLERANCE, first_fault, rounded
from farm.units.acceptance import AcceptanceFinding, Trust
from farm.workspace import Workspace
from runtime.errors import DeviceLostError, FarmError, ProcessEndedError, UnsupportedError
from runtime.lowering.lower import lower
from runtime.lowering.options import Options
from runtime.lowering.trial_inputs import trial_inputs
from runtime.operators.case import SEED, OperatorCase
from runtime.oracle.evaluate import evaluate
from runtime.plan.plan import Plan
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Algorithm, Precision, device_precisions

WORKSPACE = Workspace("accept")
KERNELS = "kernels"
MOST_ELEMENTS = 1 << 16  # of weights: larger cases of a kernel take long in the oracle, and show nothing else
SMALL = 13  # height and width that larger ones are cut to: odd, so that tiles end within
SHOWN = 3
LESS_EXACT = {Algorithm.WINOGRAD_2: 2, Algorithm.WINOGRAD_4: 8}  # what its transforms lose, in times the tolerance


@dataclasses.dataclass(frozen=True)
class KernelFault:
    """What is wrong with a case's result at one place."""

    memory: str
    precision: Precision
    case: str
    text: str

    @property
    def line(self) -> str:
        """`image/fp16 Conv_1x64...: y[0,0] is ...`."""
        return f"{self.memory}/{self.precision.label} {self.case}: {self.text}"


def kernels_finding(opened: OpenUnit, is_quick: bool = False) -> AcceptanceFinding:
    """All kernels of all memories and precisions; what is wrong on images or in half arithmetic alone is not used.

    `is_quick`: a case is left out where others have tried all of its kernels.
    """
    faults: list[KernelFault] = []
    checked: set[tuple[str, str, str]] = set()
    for target in _targets(opened):
        opened.progress.stage(f"kernels: {target.memory}, {target.precision.label}")
        for case in small_cases():
            plan = lowered(case, target)
            kernels = {(name, target.memory, target.precision.label) for name in _kernels(plan)}
            if not plan or (is_quick and kernels <= checked):
                continue
            checked |= kernels
            if text := case_fault(opened, case, plan):
                faults.append(KernelFault(target.memory, target.precision, case.name, text))
    return judged(faults, len(checked))


def judged(faults: Sequence[KernelFault], checked: int) -> AcceptanceFinding:
    """What follows from faults, of so many kernels in a memory and precision that were checked."""
    if not faults:
        return AcceptanceFinding(check=KERNELS, state="ok", text=f"{checked} right (kernel, memory and precision)")
    more = [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
    text = "; ".join([*(fault.line for fault in faults[:SHOWN]), *more])
    if all(fault.memory == "image" for fault in faults):
        return AcceptanceFinding(
            check=KERNELS, state="limited", text=text, effect="no images", trust=Trust(images=False)
        )
    if all(fault.precision == Precision.FP16 for fault in faults):
        effect = "no half arithmetic (fp16)"
        return AcceptanceFinding(check=KERNELS, state="limited", text=text, effect=effect, trust=Trust(fp16=False))
    return AcceptanceFinding(check=KERNELS, state="failed", text=text)


def small_cases() -> Iterator[OperatorCase]:
    """The cases of `farm opbench` cut to a small height and width, each once, but those of very many weights."""
    seen: set[str] = set()
    for case in CASES:
        small = _cut(case)
        key = repr(dataclasses.replace(small, name=""))
        if key not in seen and sum(int(np.prod(shape)) for shape in small.weights) <= MOST_ELEMENTS:
            seen.add(key)
            yield small


def _cut(case: OperatorCase) -> OperatorCase:
    """The case at a small size, where its operator takes that; as it is where its attributes name sizes."""
    shapes = tuple((*shape[:2], *(min(size, SMALL) for size in shape[2:])) for shape in case.inputs)
    if any(len(shape) != 4 for shape in shapes) or case.op in ("Slice", "SpaceToDepth", "MatMul", "Attention"):
        return case
    cut = dataclasses.replace(case, inputs=shapes)
    try:
        cut.graph()
    except FarmError:
        return case
    return cut


def _targets(opened: OpenUnit) -> Iterator[Target]:
    device = opened.probe.opencl.device
    if device is None:
        return
    for memory in ("buffer", *(["image"] if device.images else [])):
        for precision in device_precisions(device.fp16):
            yield opened.probe.target(opened.unit.soc, memory=memory, precision=precision)


def lowered(case: OperatorCase, target: Target) -> Plan | None:
    """The plan of a case; None where the device's limits do not admit it."""
    try:
        return lower(case.graph(), target, Options(algorithms=(case.algorithm,)))
    except UnsupportedError:
        return None


def _kernels(plan: Plan | None) -> set[str]:
    return {step.kernel.name for step in plan.steps if step.kind == StepKind.OPENCL} if plan else set()


def case_fault(opened: OpenUnit, case: OperatorCase, plan: Plan) -> str:
    """What is wrong with a case's result; empty where nothing is."""
    graph, target = case.graph(), plan.target
    given = trial_inputs(graph, np.random.default_rng(SEED))
    inputs = {name: rounded(value, target) for name, value in given.items()}
    plan_file = WORKSPACE.plan_file("case", opened.unit.abi, opened.unit.soc, target.memory)
    write_plan(plan, plan_file)
    try:
        if not opened.session.alive:
            opened.session.respawn()
        opened.load(plan_file)
        opened.write_inputs(inputs)
        opened.first_round()
        found = opened.read_outputs(plan)["y"]
    except FarmError as error:
        if isinstance(error, DeviceLostError) and not isinstance(error, ProcessEndedError):
            raise
        return str(error)
    tolerance = TOLERANCE[target.precision] * LESS_EXACT.get(case.algorithm, 1)
    return first_fault(found, evaluate(graph, inputs)["y"], tolerance)
