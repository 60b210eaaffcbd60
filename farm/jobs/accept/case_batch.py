"""Runs cases of operators on a unit, many in one plan: what it costs to bring, load and run one is paid once."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farm.farmrt.answers import LoadAnswer
from farm.jobs.fleet import refused_kernels
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.joined_graph import joined_graph
from farm.jobs.operator_check import TOLERANCE, first_fault, rounded
from farm.workspace import Workspace
from runtime.errors import DeviceLostError, FarmError, ProcessEndedError, UnsupportedError
from runtime.lowering.lower import lower
from runtime.lowering.options import Options
from runtime.lowering.trial_inputs import trial_inputs
from runtime.operators.case import ROUNDED, SEED, OperatorCase, is_rounded
from runtime.oracle.evaluate import evaluate
from runtime.plan.plan import Plan
from runtime.target import Target
from runtime.types import Algorithm

Arrays = Mapping[str, npt.NDArray[Any]]

WORKSPACE = Workspace("accept")
LESS_EXACT = {Algorithm.WINOGRAD_2: 2, Algorithm.WINOGRAD_4: 8}  # what its transforms lose, in times the tolerance


@dataclasses.dataclass(frozen=True)
class CasesPlan:
    """A plan of cases, each an output of its name, which a unit can load."""

    opened: OpenUnit
    plan: Plan
    tuned: None = None

    def load(self, lazy: bool = False) -> LoadAnswer:
        """Brings the plan to the unit and loads it."""
        unit, memory = self.opened.unit, self.plan.target.memory
        plan_file = WORKSPACE.plan_file("case", unit.abi, unit.soc, memory)
        write_plan(self.plan, plan_file)
        self.opened.session.revive()
        return self.opened.load(plan_file, lazy=lazy)


@dataclasses.dataclass(frozen=True)
class CaseResult:
    """What came of a case: the plan that it was a part of, None where none is left; `fault`: what is wrong.

    `wrong`: it was computed, and not rightly.
    """

    case: OperatorCase
    plan: Plan | None
    fault: str = ""
    wrong: bool = False


def cases_plan(opened: OpenUnit, cases: Sequence[OperatorCase], target: Target) -> Plan:
    """The plan of cases of one algorithm as jobs would make it now; raises UnsupportedError where none is left."""
    graph = joined_graph("cases", ((case.name, case.name, case.graph()) for case in cases))
    return lower(graph, opened.planner.without_refused(target), Options(algorithms=(cases[0].algorithm,)))


def run_cases(opened: OpenUnit, cases: Sequence[OperatorCase], target: Target) -> Plan:
    """Runs cases once in a plan that the unit's driver builds, which is returned."""
    inputs = {f"{case.name}:{name}": value for case in cases for name, value in _inputs(case, target).items()}

    def use(loadable: CasesPlan) -> Plan:
        loadable.load()
        opened.write_inputs(inputs)
        opened.first_round()
        return loadable.plan

    return refused_kernels.used_without(opened, lambda: CasesPlan(opened, cases_plan(opened, cases, target)), use)


class CaseRunner:
    """Runs cases and compares them with the oracle, which computes each once for all targets that store alike."""

    def __init__(self, opened: OpenUnit) -> None:
        self.opened = opened
        self._expected: dict[tuple[str, bool], Arrays] = {}

    def results(self, cases: Sequence[OperatorCase], target: Target) -> Iterator[CaseResult]:
        """What came of each case of one algorithm; one that spoils a plan is found by halving.

        Raises DeviceLostError where the unit is gone.
        """
        if not cases:
            return
        try:
            plan = run_cases(self.opened, cases, target)
            outputs = self.opened.read_outputs(plan)
        except FarmError as error:
            is_gone = isinstance(error, DeviceLostError) and not isinstance(error, ProcessEndedError)
            if is_gone or (isinstance(error, ProcessEndedError) and not self.opened.answers()):
                raise
            yield from self._apart(cases, target, error)
            return
        for case in cases:
            fault = self._fault(case, outputs[case.name], target)
            yield CaseResult(case, plan, fault, wrong=bool(fault))

    def _apart(self, cases: Sequence[OperatorCase], target: Target, error: FarmError) -> Iterator[CaseResult]:
        if isinstance(error, UnsupportedError) and len(cases) > 1:
            plans = {case.name: self._plan(case, target) for case in cases}
            yield from (CaseResult(case, None) for case in cases if not plans[case.name])
            left = [case for case in cases if plans[case.name]]
            if len(left) < len(cases):
                yield from self.results(left, target)
                return
        if len(cases) > 1:
            yield from self.results(cases[: len(cases) // 2], target)
            yield from self.results(cases[len(cases) // 2 :], target)
        elif isinstance(error, UnsupportedError):
            yield CaseResult(cases[0], None)
        else:
            yield CaseResult(cases[0], self._plan(cases[0], target), str(error))

    def _plan(self, case: OperatorCase, target: Target) -> Plan | None:
        try:
            return cases_plan(self.opened, [case], target)
        except UnsupportedError:
            return None

    def _fault(self, case: OperatorCase, found: npt.NDArray[Any], target: Target) -> str:
        key = (case.name, target.precision.stores_half)
        if key not in self._expected:
            graph = case.graph()
            graph.outputs += [ROUNDED] if case.in_bytes else []
            self._expected[key] = evaluate(graph, _inputs(case, target))
        tolerance = TOLERANCE[target.precision] * LESS_EXACT.get(case.algorithm, 1)
        expected = self._expected[key]["y"]
        if case.in_bytes:
            expected = np.where(is_rounded(found, self._expected[key][ROUNDED], tolerance), found, expected)
        return first_fault(found, expected, tolerance)


def _inputs(case: OperatorCase, target: Target) -> Arrays:
    given = trial_inputs(case.graph(), np.random.default_rng(SEED))
    return {name: rounded(value, target) for name, value in given.items()}
