"""Runs every kernel at small sizes on a unit, under its default variant, and compares with the oracle.

A variant that the GPU's driver does not build is no fault: jobs make their plans without it, and so is the case tried
again. Nor is one that computes wrongly, where another one of its kernel is right. Only where no plan is left, with the
CPU for the operator, can the unit not be used. Operators that most networks have come first; what is not reached in
time is named.
"""

import contextlib
import dataclasses
import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from farm.jobs.accept.case_batch import CaseResult, CaseRunner, cases_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES
from farm.units.acceptance import AcceptanceFinding, State, Trust
from runtime.errors import FarmError, UnsupportedError
from runtime.families.recurrent.buffer_lowering import WIDEST_SEQUENCE
from runtime.kernels.spec import Kernel
from runtime.operators.case import OperatorCase
from runtime.plan.plan import Plan, Step
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Precision, device_precisions

KERNELS = "kernels"
MOST_ELEMENTS = 70_000  # of weights: larger cases of a kernel take long in the oracle, and show nothing else
SMALL = 13  # height and width that larger ones are cut to: odd, so that tiles end within
SHOWN = 3
BATCH = 24  # cases in a plan
BUDGET_S = 240.0
MOST_TRIED = 6  # variants of a kernel in place of a wrong one
# What most networks have, most used first; all others follow.
MOST_USED = (
    *("Conv", "FullyConnected", "Add", "Relu", "MaxPool", "AveragePool", "ReduceMean", "Concat", "MatMul", "Softmax"),
    *("Mul", "Sigmoid", "LayerNormalization", "Gelu", "Attention", "HardSwish", "Resize"),
)


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
class WrongVariant:
    """A variant that computes wrongly, and the one of its kernel that is used since that is right."""

    name: str
    fault: str
    used: str

    @property
    def line(self) -> str:
        """`conv1x1 buffer fp32 A computes wrongly (y[0,0] is ...): B is right and used`."""
        return f"{self.name} computes wrongly ({self.fault}): {self.used} is right and used"


class KernelCheck:
    """What was tried on a unit so far.

    Attributes:
        faults: what is wrong.
        wrong: variants that are not used any more, since they compute wrongly and another one does not.
        right: names of the cases that were right anywhere.
        checked: kernels that were tried, each with its memory and precision.
        late: operators for which there was no time.
    """

    def __init__(self, opened: OpenUnit, is_quick: bool) -> None:
        self._opened, self._is_quick = opened, is_quick
        self._end_s = time.monotonic() + BUDGET_S
        self._runner = CaseRunner(opened)
        self._tried: set[object] = set()
        self.faults: list[KernelFault] = []
        self.wrong: list[WrongVariant] = []
        self.right: set[str] = set()
        self.checked: set[tuple[str, str, str]] = set()
        self.late: list[str] = []

    def check(self, cases: Sequence[OperatorCase], target: Target) -> list[OperatorCase]:
        """Tries cases of one algorithm; those of which the device's limits or the driver leave no plan."""
        if self.checked and time.monotonic() > self._end_s:
            self.late += [case.op for case in cases]
            return []
        left, seen = [], self._opened.planner.refused
        for result in self._runner.results(self._needed(cases, target), target):
            if result.wrong and self._opened.planner.refused != seen:
                (result,) = self._runner.results([result.case], target)
            if result.plan:
                self._note(result, target)
            else:
                left.append(result.case)
        return left

    def _note(self, result: CaseResult, target: Target) -> None:
        assert result.plan
        self.checked |= _kernels(result.plan)
        self._tried |= _kernels(result.plan) if self._is_quick else _programs(result.plan)
        fault = self._mended(result, target) if result.wrong else result.fault
        if fault:
            self.faults.append(KernelFault(target.memory, target.precision, result.case.name, fault))
        else:
            self.right.add(result.case.name)

    def _mended(self, result: CaseResult, target: Target) -> str:
        """What stays wrong with a case whatever variants its kernels have; where some are right, others are refused."""
        plan = cases_plan(self._opened, [result.case], target)
        for kernel in dict.fromkeys(step.kernel for step in _gpu_steps(plan) if len(step.kernel.variants) > 1):
            if self._has_right_variant(kernel, plan, result, target):
                return ""
        return result.fault

    def _has_right_variant(self, kernel: Kernel, plan: Plan, result: CaseResult, target: Target) -> bool:
        """Tries the variants that jobs would use one after the other, until one is right."""
        wrong: dict[str, str] = {}
        fault: str = result.fault
        for _ in range(MOST_TRIED):
            step = next((step for step in _gpu_steps(plan) if step.kernel is kernel), None)
            if step is None:
                return False
            wrong[_variant_name(step, plan)] = fault
            without = dataclasses.replace(target, refused=target.refused | wrong.keys())
            (tried,) = self._runner.results([result.case], without)
            if tried.plan is None or (tried.fault and not tried.wrong):
                return False
            if not tried.fault:
                steps = (step for step in _gpu_steps(tried.plan) if step.kernel is kernel)
                used = next((step.variant.name for step in steps), "another kernel")
                self._opened.planner.refuse({name: f"computes wrongly: {text}" for name, text in wrong.items()})
                self.wrong += [WrongVariant(name, text, used) for name, text in wrong.items()]
                return True
            plan, fault = tried.plan, tried.fault
        return False

    def _needed(self, cases: Sequence[OperatorCase], target: Target) -> list[OperatorCase]:
        """The cases with programs, in a quick check with kernels, that no other has; and those without a plan."""
        needed, seen = [], set(self._tried)
        for case in cases:
            tried = set[object]()
            with contextlib.suppress(UnsupportedError):
                plan = cases_plan(self._opened, [case], target)
                tried = set(_kernels(plan)) if self._is_quick else _programs(plan)
            if not tried or not tried <= seen:
                needed.append(case)
                seen |= tried
        return needed


def kernels_finding(
    opened: OpenUnit, is_quick: bool = False, before: AcceptanceFinding | None = None
) -> AcceptanceFinding:
    """All kernels of all memories and precisions; what is wrong on images or in half arithmetic alone is not used.

    A case is left out where others have tried all of its programs; in a quick check, all of its kernels. `before`: a
    finding to go on with, by the operators for which there was no time.
    """
    check, left = KernelCheck(opened, is_quick), dict[str, OperatorCase]()
    wanted = [case for case in small_cases() if not before or case.op in before.late]
    for cases, target in itertools.product(_batches(wanted), _targets(opened)):
        opened.progress.stage(f"kernels: {cases[0].op} and more in {target.memory}s, {target.precision.label}")
        left |= {case.name: case for case in check.check(cases, target)}
    on_gpu = len(check.checked)
    refused = opened.planner.refused
    for case in left.values() if refused else ():
        if case.name not in check.right:
            _check_on_cpu(check, case, opened)
    return judged(check.faults, on_gpu, refused, check.wrong, tuple(dict.fromkeys(check.late)), before)


def _gpu_steps(plan: Plan) -> list[Step]:
    return [step for step in plan.steps if step.kind == StepKind.OPENCL]


def _kernels(plan: Plan) -> set[tuple[str, str, str]]:
    """The GPU's kernels in a plan, each with its memory and precision."""
    return {(step.kernel.name, plan.target.memory, plan.target.precision.label) for step in _gpu_steps(plan)}


def _programs(plan: Plan) -> set[object]:
    """What a plan has the GPU's driver build, each in its memory and precision."""
    return {(_variant_name(step, plan), tuple(sorted(step.defines.items()))) for step in _gpu_steps(plan)}


def _variant_name(step: Step, plan: Plan) -> str:
    """How `Target.refused` names the variant that a step launches."""
    return step.kernel.refused_name(step.variant, plan.target.precision if step.precision is None else step.precision)


def _batches(cases: Iterable[OperatorCase]) -> Iterator[Sequence[OperatorCase]]:
    """Cases of one algorithm each, as many as a plan is to have, those of the most used operators first."""
    for _, alike in itertools.groupby(sorted(cases, key=_rank), lambda case: case.algorithm):
        left = list(alike)
        yield from (left[begin : begin + BATCH] for begin in range(0, len(left), BATCH))


def _rank(case: OperatorCase) -> tuple[int, str]:
    return (MOST_USED.index(case.op) if case.op in MOST_USED else len(MOST_USED), case.algorithm)


def judged(
    faults: Sequence[KernelFault],
    checked: int,
    refused: Mapping[str, str] | None = None,
    wrong: Sequence[WrongVariant] = (),
    late: tuple[str, ...] = (),
    before: AcceptanceFinding | None = None,
) -> AcceptanceFinding:
    """What follows from faults, of so many kernels in a memory and precision that were checked.

    Args:
        refused: variants that do not work with the driver, with what was seen.
        wrong: those of them that compute wrongly, and what is used in their place.
        late: operators for which there was no time.
        before: what was found of other operators.
    """
    earlier = f"{before.text.removesuffix(_late_text(before.late))}; then " if before else ""
    told = [f"{checked} right (kernel, memory and precision)"] if not faults else []
    told += [fault.line for fault in faults[:SHOWN]]
    told += [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
    told += [each.line for each in wrong[:SHOWN]]
    told += [_refused_text(refused)] if refused else []
    text = earlier + "; ".join(told) + _late_text(late)
    is_of_images = bool(faults) and all(fault.memory == "image" for fault in faults)
    is_of_half = bool(faults) and all(fault.precision == Precision.FP16 for fault in faults)
    is_nothing_right = not (faults or checked or before)
    if is_nothing_right or (faults and not is_of_images and not is_of_half):
        return AcceptanceFinding(check=KERNELS, state="failed", text=text, late=late)
    trust = Trust(images=False) if is_of_images else Trust(fp16=False) if is_of_half else Trust()
    trust = before.trust.joined(trust) if before else trust
    effects = ["no images"] if trust.images is False else []
    effects += ["no half arithmetic (fp16)"] if trust.fp16 is False else []
    effects += [f"plans do without {len(refused)} variants of kernels"] if refused else []
    effects += ["the others are used untried; `farm accept` goes on with them"] if late else []
    state: State = "limited" if effects else "ok"
    return AcceptanceFinding(check=KERNELS, state=state, text=text, effect="; ".join(effects), trust=trust, late=late)


def _late_text(late: Sequence[str]) -> str:
    return f"; no time was left for {', '.join(late)}" if late else ""


def _refused_text(refused: Mapping[str, str]) -> str:
    """`3 variants of conv1x1 (buffer), pool (image) do not work: ...`, with what was seen of the first."""
    kernels = dict.fromkeys(f"{kernel} ({memory})" for kernel, memory, *_ in map(str.split, refused))
    shown = [*list(kernels)[:SHOWN], *([f"{len(kernels) - SHOWN} more"] if len(kernels) > SHOWN else [])]
    return f"{len(refused)} variants of {', '.join(shown)} do not work: {next(iter(refused.values()))}"


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


def _check_on_cpu(check: KernelCheck, case: OperatorCase, opened: OpenUnit) -> None:
    """Tries a case of which no kernel works with the driver, as `runtime: cpu+gpu` runs it."""
    target = opened.probe.target(opened.unit.soc, memory="buffer", precision=Precision.FP32, allow_cpu=True)
    if check.check([case], target):
        check.faults.append(KernelFault("buffer", Precision.FP32, case.name, "no kernel of it works with the driver"))
