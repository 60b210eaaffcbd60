"""Judges a plan by more than the outputs of a model's own inputs, in one place for all jobs.

What is compared is in farm/model/further_cases.py. A plan that keeps squashed tensors is another one than the plan that
was measured, so that timings are not touched: it is loaded when all else is done.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from farm.config.execution import Execution
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.validate import Validation, further_thresholds, runtime_of, with_half_range
from farm.model import metrics
from farm.model.further_cases import OWN, FurtherCase, FurtherCases
from farm.model.stepwise import departures
from farm.rows.row import Ending
from farm.rows.status import Status
from runtime.graph import Array
from runtime.lowering.choice import GraphChoice, graph_choice
from runtime.lowering.quantized_choice import roundings
from runtime.plan.plan import Plan
from runtime.target import NOTHING_COMPUTED, Target
from runtime.types import Algorithm

# Loads the plan that is judged as it is made of the cases' graph, with their tensors among its outputs.
LoadKeeping = Callable[[FurtherCases], Plan]


def judge_further(
    opened: OpenUnit,
    prepared: Prepared,
    data: TestData,
    validation: Validation,
    load: LoadKeeping,
    loaded: Plan | None = None,
) -> Validation:
    """A validation of a plan's outputs that also judges the further cases of a model; as it is where it is not ok.

    Further cases stop at the first that is wrong: the reason names its input and tensors. Figures stay those of the
    model's own inputs. A quantised model, which may turn one step into many, is judged by its operators instead, each
    by what it reads on the unit. `loaded`: the plan that is judged, where the unit still has it.
    """
    device = opened.probe.opencl.device
    if device and device.driver.startswith(NOTHING_COMPUTED):
        return validation
    if validation.is_ok and (prepared.is_quantized or validation.is_moved):
        return _judged_by_steps(opened, prepared, data, validation, load)
    further = data.further
    if not validation.is_ok or not further.cases:
        return validation
    opened.progress.stage(f"{prepared.name}: {len(further.cases)} further comparisons")
    plan = loaded if loaded and not further.kept else load(further)
    for case in further.cases:
        opened.write_inputs(case.inputs)
        opened.first_round()
        reason = "; ".join(_objections(prepared, plan.target, case, opened.read_outputs(plan)))
        if reason:
            ending = Ending(status=Status.WRONG_RESULT, reason=f"{_prefix(case)}{reason}")
            wrong = dataclasses.replace(validation, ending=ending)
            return with_half_range(wrong, plan.target, TestData(prepared, case.inputs))
    return validation


def _judged_by_steps(
    opened: OpenUnit, prepared: Prepared, data: TestData, validation: Validation, load: LoadKeeping
) -> Validation:
    """The first operator that departs, in run order, is named."""
    graph = prepared.graph
    opened.progress.stage(f"{prepared.name}: {len(graph.layers)} operators, each by what it reads")
    joined = roundings(graph, graph.outputs)  # which a plan may compute with what rounds them
    plan = load(FurtherCases(graph, tuple(name for name in graph.layers if name not in joined)))
    opened.write_inputs(data.inputs)
    opened.first_round()
    values = {**data.inputs, **opened.read_outputs(plan)}
    target = plan.target
    thresholds = metrics.default_thresholds(runtime_of(target), target.precision)
    for node, reason in departures(graph, values, target.precision, thresholds):
        told = f"operator {node.name!r} ({node.op}) departs from what it makes of its inputs: {reason}"
        return dataclasses.replace(validation, ending=Ending(status=Status.WRONG_RESULT, reason=told))
    return validation


def keeping(
    opened: OpenUnit,
    prepared: Prepared,
    target: Target,
    choice: GraphChoice | None = None,
    files: tuple[Path | None, Path | None] = (None, None),
    cpu: CpuChoice | None = None,
    execution: Execution | None = None,
) -> LoadKeeping:
    """For a plan that was made by these choices; `files`: tuned parameters, then compiled kernels."""

    def load(further: FurtherCases) -> Plan:
        settings, own = prepared.settings, dataclasses.replace(prepared, graph=further.graph)
        runtime = runtime_of(target)
        chosen = choice and _for_cases(choice, further)
        plan, plan_file = opened.planner.plan(own, runtime, target, further.kept, chosen, f"{runtime}.further", cpu)
        write_plan(plan, plan_file)
        opened.load(
            plan_file,
            *files,
            limit_kernel_time=settings.limit_opencl_kernel_time,
            round_limit_s=settings.round_limit,
            execution=execution or settings.execution,
        )
        return plan

    return load


def _for_cases(choice: GraphChoice, further: FurtherCases) -> GraphChoice:
    """A choice for the graph of the cases: nodes and their activations run as both together were chosen to."""
    nodes = dict(choice.nodes)
    for tensor, result in further.apart.items():
        nodes[tensor] = nodes[result]
        nodes[result] = dataclasses.replace(nodes[result], algorithm=Algorithm.DIRECT)
    return graph_choice(further.graph, nodes)


def _prefix(case: FurtherCase) -> str:
    return "" if case.name == OWN else f"with {case.name} as inputs: "


def _objections(prepared: Prepared, target: Target, case: FurtherCase, actual: Mapping[str, Array]) -> Iterator[str]:
    of_outputs, of_inner = further_thresholds(prepared, target)
    for name, tensor in case.expected.items():
        thresholds = of_inner if tensor.inner else of_outputs
        if tensor.is_evidence(target.precision, 10.0 ** (-thresholds.sqnr_db / 10.0)):
            verdict = metrics.judge_output(tensor.value, actual[name], thresholds)
            if verdict.status == Status.WRONG_RESULT:
                yield f"{tensor.what}: {verdict.reason}"
