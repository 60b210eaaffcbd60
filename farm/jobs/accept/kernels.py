"""Runs every kernel at small sizes on a unit, under its default variant, and compares with the oracle.

A variant that the GPU's driver does not build is no fault: jobs make their plans without it, and so is the case tried
again. Only where no plan is left, with the CPU for the operator, can the unit not be used.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farm.jobs.fleet import refused_kernels
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES
from farm.jobs.operator_check import TOLERANCE, first_fault, rounded
from farm.units.acceptance import AcceptanceFinding, Trust
from farm.workspace import Workspace
from runtime.errors import DeviceLostError, FarmError, ProcessEndedError, UnsupportedError
from runtime.families.recurrent.buffer_lowering import WIDEST_SEQUENCE
from runtime.lowering.lower import lower
from runtime.lowering.options import Options
from runtime.lowering.trial_inputs import trial_inputs
from runtime.operators.case import SEED, OperatorCase
from runtime.oracle.evaluate import evaluate
from runtime.plan.plan import Plan
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Algorithm, Precision, device_precisions

Inputs = Mapping[str, npt.NDArray[Any]]

WORKSPACE = Workspace("accept")
KERNELS = "kernels"
MOST_ELEMENTS = 70_000  # of weights: larger cases of a kernel take long in the oracle, and show nothing else
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


@dataclasses.dataclass(frozen=True)
class LoadableCase:
    """A case's plan, which a unit can load."""

    opened: OpenUnit
    plan: Plan
    tuned: None = None

    def load(self, lazy: bool = False) -> object:
        """Brings the plan to the unit and loads it."""
        unit, memory = self.opened.unit, self.plan.target.memory
        plan_file = WORKSPACE.plan_file("case", unit.abi, unit.soc, memory)
        write_plan(self.plan, plan_file)
        self.opened.session.revive()
        return self.opened.load(plan_file, lazy=lazy)


class KernelCheck:
    """What was tried on a unit so far.

    Attributes:
        faults: what is wrong.
        right: names of the cases that were right anywhere.
        checked: kernels that were tried, each with its memory and precision.
    """

    def __init__(self, opened: OpenUnit, is_quick: bool) -> None:
        self._opened, self._is_quick = opened, is_quick
        self.faults: list[KernelFault] = []
        self.right: set[str] = set()
        self.checked: set[tuple[str, str, str]] = set()

    def check(self, case: OperatorCase, target: Target) -> bool:
        """Tries a case; False where no plan of it is left, since the device's limits or the driver admit none."""
        try:
            if self._is_quick and (kernels := self._kernels(case, target)) and kernels <= self.checked:
                return True
            text = case_fault(self._opened, case, target)
            self.checked |= self._kernels(case, target)
        except UnsupportedError:
            return False
        if text:
            self.faults.append(KernelFault(target.memory, target.precision, case.name, text))
        else:
            self.right.add(case.name)
        return True

    def _kernels(self, case: OperatorCase, target: Target) -> set[tuple[str, str, str]]:
        """The GPU's kernels in the plan of a case, each with its memory and precision."""
        plan = lowered(self._opened, case, target)
        steps = (step for step in plan.steps if step.kind == StepKind.OPENCL)
        return {(step.kernel.name, plan.target.memory, target.precision.label) for step in steps}


def kernels_finding(opened: OpenUnit, is_quick: bool = False) -> AcceptanceFinding:
    """All kernels of all memories and precisions; what is wrong on images or in half arithmetic alone is not used.

    `is_quick`: a case is left out where others have tried all of its kernels.
    """
    check, left = KernelCheck(opened, is_quick), dict[str, OperatorCase]()
    for target in _targets(opened):
        opened.progress.stage(f"kernels: {target.memory}, {target.precision.label}")
        left |= {case.name: case for case in small_cases() if not check.check(case, target)}
    on_gpu = len(check.checked)
    refused = opened.planner.refused
    for case in left.values() if refused else ():
        if case.name not in check.right:
            _check_on_cpu(check, case, opened)
    return judged(check.faults, on_gpu, refused)


def judged(faults: Sequence[KernelFault], checked: int, refused: Mapping[str, str] | None = None) -> AcceptanceFinding:
    """What follows from faults, of so many kernels in a memory and precision that were checked.

    `refused`: variants that the driver does not build, with what it says.
    """
    told = [f"{checked} right (kernel, memory and precision)"] if not faults else []
    told += [fault.line for fault in faults[:SHOWN]]
    told += [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
    told += [_refused_text(refused)] if refused else []
    found = AcceptanceFinding(check=KERNELS, state="limited", text="; ".join(told))
    without = [f"plans do without {len(refused)} variants of kernels"] if refused else []
    if not faults and checked:
        return found.model_copy(update={"state": "limited" if refused else "ok", "effect": "; ".join(without)})
    if faults and all(fault.memory == "image" for fault in faults):
        return found.model_copy(update={"effect": "; ".join(["no images", *without]), "trust": Trust(images=False)})
    if faults and all(fault.precision == Precision.FP16 for fault in faults):
        effect = "; ".join(["no half arithmetic (fp16)", *without])
        return found.model_copy(update={"effect": effect, "trust": Trust(fp16=False)})
    return found.model_copy(update={"state": "failed"})


def _refused_text(refused: Mapping[str, str]) -> str:
    """`the driver does not build 3 variants of conv1x1 (buffer), pool (image): ...`, with what it says of the first."""
    kernels = dict.fromkeys(f"{kernel} ({memory})" for kernel, memory, *_ in map(str.split, refused))
    shown = [*list(kernels)[:SHOWN], *([f"{len(kernels) - SHOWN} more"] if len(kernels) > SHOWN else [])]
    return f"the driver does not build {len(refused)} variants of {', '.join(shown)}: {next(iter(refused.values()))}"


def small_cases() -> Iterator[OperatorCase]:
    """The cases of `farm opbench` cut to a small height and width, each once, but those of very many weights.

    Kernels of which all have very many come at a size of their own.
    """
    seen: set[str] = set()
    for case in (*map(_cut, CASES), *_narrow_cases()):
        key = repr(dataclasses.replace(case, name=""))
        if key not in seen and sum(map(math.prod, case.weights)) <= MOST_ELEMENTS:
            seen.add(key)
            yield case


def _narrow_cases() -> Iterator[OperatorCase]:
    """Cases with fewer channels: a dense layer, a window as large as its image, and a recurrent layer step by step."""
    yield OperatorCase("FullyConnected_3x64_16", "FullyConnected", ((3, 64),), ((16, 64), (16,)))
    window = next(case for case in CASES if case.op == "Conv" and case.weights[0][2:] == case.inputs[0][2:])
    filters = ((16, 16, 7, 7), (16,))
    yield dataclasses.replace(window, name="Conv_1x16x7x7_K7x7_16", inputs=((1, 16, 7, 7),), weights=filters)
    layer, wide = next(case for case in CASES if case.op == "RNN"), WIDEST_SEQUENCE + 4
    weights = ((1, wide, wide), (1, wide))
    yield dataclasses.replace(layer, name=f"RNN_2x1x{wide}", inputs=((2, 1, wide),), weights=weights)


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


def lowered(opened: OpenUnit, case: OperatorCase, target: Target) -> Plan:
    """The plan of a case as jobs would make it now; raises UnsupportedError where none is left."""
    return lower(case.graph(), opened.planner.without_refused(target), Options(algorithms=(case.algorithm,)))


def _check_on_cpu(check: KernelCheck, case: OperatorCase, opened: OpenUnit) -> None:
    """Tries a case whose kernels the driver does not build, as `runtime: cpu+gpu` runs it."""
    target = opened.probe.target(opened.unit.soc, memory="buffer", precision=Precision.FP32, allow_cpu=True)
    if not check.check(case, target):
        check.faults.append(KernelFault("buffer", Precision.FP32, case.name, "the driver builds no kernel of it"))


def run_case(opened: OpenUnit, case: OperatorCase, target: Target, inputs: Inputs) -> Plan:
    """Runs a case once in a plan that the unit's driver builds, which is returned."""

    def use(loadable: LoadableCase) -> Plan:
        loadable.load()
        opened.write_inputs(inputs)
        opened.first_round()
        return loadable.plan

    return refused_kernels.used_without(opened, lambda: LoadableCase(opened, lowered(opened, case, target)), use)


def case_fault(opened: OpenUnit, case: OperatorCase, target: Target) -> str:
    """What is wrong with a case's result; empty where nothing is. Raises UnsupportedError where no plan is left."""
    graph = case.graph()
    given = trial_inputs(graph, np.random.default_rng(SEED))
    inputs = {name: rounded(value, target) for name, value in given.items()}
    try:
        found = opened.read_outputs(run_case(opened, case, target, inputs))["y"]
    except UnsupportedError:
        raise
    except FarmError as error:
        if isinstance(error, DeviceLostError) and not isinstance(error, ProcessEndedError):
            raise
        return str(error)
    tolerance = TOLERANCE[target.precision] * LESS_EXACT.get(case.algorithm, 1)
    return first_fault(found, evaluate(graph, inputs)["y"], tolerance)
