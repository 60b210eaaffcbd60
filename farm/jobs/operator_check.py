"""`farm operators --check`: runs every kernel and C function of users' operators on units, against the reference.

For each memory and precision one plan has a step for every case, variant and local size: the declared sizes and ones
that are larger by one, the default local size and an odd one, which shows whether the kernel tests its bounds.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from farm.config.inventory import Unit
from farm.jobs.custom_cases import CustomCase, custom_cases, grown
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.joined_graph import joined_graph
from farm.rows.status import Status, status_of
from farm.workspace import Workspace
from runtime.custom.binding import BoundOperator
from runtime.errors import FarmError, UnsupportedError
from runtime.graph import Array, Graph
from runtime.kernels.spec import Kernel, MemoryType, Variant, WorkItems
from runtime.lowering.assembly import round_up, size3
from runtime.lowering.lower import Options, lower
from runtime.lowering.trial_inputs import trial_inputs
from runtime.oracle.evaluate import evaluate
from runtime.plan.plan import Plan, Size3, Step
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import Precision, device_precisions

WORKSPACE = Workspace("operators")
SEED = 11
SHOWN_FAULTS = 3
ODD_SIZE = 3
TOLERANCE = {Precision.FP32: 2e-4, Precision.FP16_STORAGE: 5e-3, Precision.FP16: 2e-2}  # of the largest value


@dataclasses.dataclass(frozen=True)
class OperatorCheck:
    """What became of one operator at one place: `where` is `cpu`, or `gpu/MEMORY/PRECISION`.

    `launches` were compared; `reason` says what is wrong, a line each.
    """

    operator: str
    unit: str
    where: str
    launches: int
    status: Status
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A launch to check: a case, and for a kernel the variant and local size."""

    case: CustomCase
    name: str
    variant: Variant | None = None
    local: Size3 = (0, 0, 0)


def check_job(
    operators: Sequence[BoundOperator],
    units: Sequence[Unit],
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[OperatorCheck]:
    """A result for each operator, unit, memory and precision."""

    def run(opened: OpenUnit) -> Iterator[OperatorCheck]:
        for bound in operators:
            yield from _checks(opened, bound)

    def failed(unit: Unit, error: FarmError) -> OperatorCheck:
        return OperatorCheck("", unit.name, "", 0, status_of(error), str(error))

    def is_good(check: OperatorCheck) -> bool:
        return check.status == Status.OK

    yield from run_jobs([Job([unit], run, is_good, failed) for unit in units], fleet, progress)


def _checks(opened: OpenUnit, bound: BoundOperator) -> Iterator[OperatorCheck]:
    if not bound.declared.cases:
        reason = "it declares no cases, so nothing can be checked"
        yield OperatorCheck(bound.title, opened.unit.name, "", 0, Status.UNSUPPORTED, reason)
        return
    for target in _targets(opened, bound):
        where = "cpu" if target.memory == "cpu" else f"gpu/{target.memory}/{target.precision.label}"
        opened.progress.stage(f"{bound.title} on {where}")
        try:
            yield _checked(opened, bound, target, where)
        except FarmError as error:
            yield OperatorCheck(bound.title, opened.unit.name, where, 0, status_of(error), str(error))
            opened.session.revive()


def _targets(opened: OpenUnit, bound: BoundOperator) -> Iterator[Target]:
    """One for each memory and precision that the unit has and the operator is written for."""
    device = opened.probe.opencl.device
    if bound.c:
        yield opened.probe.target(opened.unit.soc, memory="cpu", precision=Precision.FP32)
    if device is None:
        return
    memories = [memory for memory in bound.kernels if memory == MemoryType.BUFFER or device.images]
    for memory in memories:
        for precision in device_precisions(device.fp16):
            yield opened.probe.target(opened.unit.soc, memory=str(memory), precision=precision)


def _checked(opened: OpenUnit, bound: BoundOperator, target: Target, where: str) -> OperatorCheck:
    cases = [case for each in bound.declared.cases for case in grown(bound, each)]
    wanted = [launch for case in (*custom_cases([bound]), *cases) for launch in _wanted(case, target)]
    graph = _graph(wanted)
    inputs = {name: rounded(value, target) for name, value in trial_inputs(graph, np.random.default_rng(SEED)).items()}
    plan = _varied(lower(graph, target, Options(reuse_memory=False)), wanted)
    outputs = _executed(opened, plan, inputs)
    expected = evaluate(graph, inputs)
    tolerance = TOLERANCE[target.precision]
    faults = [
        f"{each.name}: {found}"
        for each in wanted
        if (found := first_fault(outputs[each.name], expected[each.name], tolerance))
    ]
    shown = faults[:SHOWN_FAULTS] + ([f"and {len(faults) - SHOWN_FAULTS} more"] if len(faults) > SHOWN_FAULTS else [])
    status = Status.WRONG_RESULT if faults else Status.OK
    return OperatorCheck(bound.title, opened.unit.name, where, len(wanted), status, "\n".join(shown))


def _wanted(case: CustomCase, target: Target) -> Iterator[_Wanted]:
    """The launches of a case; none where no variant of the kernel fits it, or on images what lies in no image."""
    if target.memory == "cpu":
        yield _Wanted(case, case.name)
        return
    step = _own_step(lower(case.graph(), target, Options()), case)
    if step is None:
        return
    for variant in step.kernel.variants:
        if step.kernel.fits(step.dims, variant, target):
            continue
        for local in _local_sizes(step.kernel, step, variant, target):
            text = "x".join(map(str, local))
            yield _Wanted(case, f"{case.name}/{variant.name}/local {text}", variant, size3(local, 0))


def _own_step(plan: Plan, case: CustomCase) -> Step | None:
    """The step of the kernel that is to be checked here."""
    memory = plan.target.memory
    steps = (step for step in plan.steps if step.name == case.name and step.kind == StepKind.OPENCL)
    return next((step for step in steps if step.kernel.memory == memory and step.kernel.text), None)


def _local_sizes(kernel: Kernel, step: Step, variant: Variant, target: Target) -> list[WorkItems]:
    """The default, and an odd one within the limits; so many work items are launched that do not exist."""
    items = kernel.work_items(step.dims, variant)
    assert kernel.local_size
    limits = (*kernel.local_limit, *target.max_work_item_sizes[len(kernel.local_limit) :])
    odd = tuple(min(ODD_SIZE, limit, most) for limit, most in zip(limits, target.max_work_item_sizes, strict=True))
    sizes = [kernel.local_size(step.dims, variant, target), odd[: len(items)]]
    return list(dict.fromkeys(size for size in sizes if math.prod(size) <= target.max_work_group_size))


def _graph(wanted: Sequence[_Wanted]) -> Graph:
    """All launches as nodes of one graph; those of a case read the same inputs."""
    if not wanted:
        raise UnsupportedError("no case fits the kernel on this device")
    return joined_graph("operators", ((each.name, each.case.name, each.case.graph()) for each in wanted))


def rounded(value: Array, target: Target) -> Array:
    """The values that the plan's precision can hold, so that only the kernel's own rounding shows."""
    if value.dtype != np.float32 or not target.precision.stores_half:
        return value
    return value.astype(np.float16).astype(np.float32)


def _varied(plan: Plan, wanted: Sequence[_Wanted]) -> Plan:
    """The plan with the steps under the variants and local sizes that are to be checked."""
    chosen = {each.name: each for each in wanted if each.variant}
    return dataclasses.replace(plan, steps=tuple(_varied_step(step, chosen) for step in plan.steps))


def _varied_step(step: Step, chosen: Mapping[str, _Wanted]) -> Step:
    each = chosen.get(step.name)
    if each is None or each.variant is None or not step.kernel.text:
        return step
    items = step.kernel.work_items(step.dims, each.variant)
    return dataclasses.replace(
        step,
        variant=each.variant,
        work_dim=len(items),
        global_size=round_up(items, each.local[: len(items)]),
        local_size=each.local,
    )


def _executed(opened: OpenUnit, plan: Plan, inputs: Mapping[str, Array]) -> dict[str, Array]:
    plan_file = WORKSPACE.plan_file("check", opened.unit.abi, opened.unit.soc, plan.target.memory)
    write_plan(plan, plan_file)
    opened.load(plan_file)
    opened.write_inputs(inputs)
    opened.first_round()
    return opened.read_outputs(plan)


def first_fault(found: Array, right: Array, tolerance: float) -> str:
    """The first element that differs by more than this part of the largest; empty where none does."""
    close = found == right
    if right.dtype.kind == "f":
        finite = np.abs(right[np.isfinite(right)])
        allowed = tolerance * max(float(finite.max(initial=0.0)), 1e-6)
        close |= np.isclose(found, right, rtol=tolerance, atol=allowed, equal_nan=True)
    if close.all():
        return ""
    first = tuple(int(index) for index in np.argwhere(~close)[0])
    place = ",".join(map(str, first))
    wrong = int((~close).sum())
    return f"y[{place}] is {found[first]:.6g}, the reference says {right[first]:.6g}; {wrong} of {close.size} differ"
