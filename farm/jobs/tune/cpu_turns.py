"""Plans of one model for a unit's CPU, each with threads of its own: fresh processes of all of them run in turns."""

import contextlib
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

from farm.config.execution import Execution
from farm.jobs.compare.interleaved import Effort, PlanMeasurement, first_rounds, in_turns, samples_ms
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models import plans
from farm.jobs.models.cpu_choice import CpuChoice, with_choice
from farm.jobs.models.prepare import Prepared, TestData
from farm.rows.row import Throttling
from runtime.plan.plan import Plan


@dataclasses.dataclass(frozen=True)
class CpuPlan:
    """A model's plan as it lies in its file, and how it is executed."""

    plan: Plan
    path: Path
    execution: Execution


def written(opened: OpenUnit, prepared: Prepared, choice: CpuChoice | None, folder: Path) -> CpuPlan:
    """Writes the plan of a choice, or the default one, into a folder."""
    options = prepared.options()
    chosen = dataclasses.replace(options, cpu=choice.options) if choice else options
    plan = plans.lowered(prepared, opened.planner.target(prepared, "cpu"), chosen)
    path = folder / f"{len(list(folder.iterdir()))}.plan"
    write_plan(plan, path)
    return CpuPlan(plan, path, with_choice(prepared.settings.execution, choice))


def measure_plans(
    opened: OpenUnit, ways: Sequence[CpuPlan], data: TestData, effort: Effort
) -> tuple[list[PlanMeasurement], Throttling]:
    """Measures every plan."""

    def all_processes() -> list[list[PlanMeasurement]]:
        return [_one_process_each(opened, ways, data, effort, number) for number in effort.numbers()]

    processes, throttling = opened.cool(all_processes)
    return [_joined(of_way) for of_way in zip(*processes, strict=True)], throttling


def _joined(processes: Sequence[PlanMeasurement]) -> PlanMeasurement:
    times = tuple(itertools.chain.from_iterable(process.processes_ms for process in processes))
    return dataclasses.replace(processes[0], processes_ms=times)


def _one_process_each(
    opened: OpenUnit, ways: Sequence[CpuPlan], data: TestData, effort: Effort, number: int
) -> list[PlanMeasurement]:
    """The rounds of a fresh process of each, loaded and run in an order that changes with `number`."""
    with contextlib.ExitStack() as stack:
        units = [stack.enter_context(opened.twin()) for _ in ways]
        loads = [own.load(way.path, execution=way.execution) for own, way in zip(units, ways, strict=True)]
        first = [first_rounds(own, data.inputs) for own in units]
        slowest_ms = max(round_ms for _, round_ms in first)
        turns, in_each = effort.turns_of(slowest_ms), effort.rounds(slowest_ms)
        answers = in_turns(units, turns, in_each, slowest_ms, number)
        return [
            PlanMeasurement(load, first_ms, own.read_outputs(way.plan), (samples_ms(of_way),))
            for own, way, load, (first_ms, _), of_way in zip(units, ways, loads, first, answers, strict=True)
        ]
