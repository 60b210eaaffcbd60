"""Searches how a model is best executed on a unit's CPU, by measuring whole models.

First, with blocks of 8 and of 16 channels, each convolution is timed as Winograd's and as the direct one, and depthwise
ones as one step with their 1x1 convolutions and alone; then a quantised model's plans in eight bits, in floats, and
with each operator in the one that is faster, conversions included; then the best plan with other numbers of threads,
and on the big cores alone where there are others.
"""

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from farm.config.execution import Execution
from farm.farmrt.answers import CpuAnswer
from farm.jobs.benchmark import profile
from farm.jobs.compare.interleaved import Effort, first_rounds
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models import cpu_choice
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared, TestData
from farm.jobs.tune.cpu_turns import CpuPlan, measure_plans, written
from runtime.families.convolution.block_kernels import (
    BLOCKED_SEPARABLE,
    BLOCKED_WINOGRAD,
    INTEGER_WINOGRAD,
    QUANTIZED_WINOGRAD,
)
from runtime.families.convolution.node import takes_winograd
from runtime.graph import Graph, Node
from runtime.kernels.blocked import QUANTIZED_REORDER
from runtime.layout.blocked import BLOCKS
from runtime.lowering.builder import Builder
from runtime.lowering.quantized_choice import choose_quantized, fused_in_bytes
from runtime.lowering.value import InBytes
from runtime.plan.plan import Plan
from runtime.selection.eight_bits import OperatorTimes, floats_of_least_time

_WINOGRAD = (BLOCKED_WINOGRAD, INTEGER_WINOGRAD, QUANTIZED_WINOGRAD)
TRIAL = Effort(processes=3, turns=2)
PROFILES, PROFILED_ROUNDS = 3, 3  # of each plan, in turns
DEADLINE_S = 600.0


@dataclasses.dataclass(frozen=True)
class CpuSearch:
    """What the search found, and what it took: plans that were measured, and seconds."""

    choice: CpuChoice
    trials: int
    seconds: float


def search_cpu(opened: OpenUnit, prepared: Prepared, data: TestData, folder: Path) -> CpuSearch:
    """Finds the fastest of some ways to execute a model; whether it is faster than the default is to be proved."""
    start_s = time.monotonic()
    opened.progress.stage(f"{prepared.name}: blocks and algorithms")
    plans = [_with_best_algorithms(opened, prepared, block, data, folder) for block in BLOCKS]
    floats = in_floats(prepared.graph, plans)
    both = zip(plans, floats, strict=False)
    mixed = [_mixed(opened, prepared, ways, data, folder) for ways in both] if floats else []
    measured = [*plans, *floats, *filter(None, mixed)]
    best = _fastest(opened, prepared, measured, data, folder)
    threads = [*other_threads(prepared.settings.execution, best, opened.probe.cpu)]
    if threads:
        opened.progress.stage(f"{prepared.name}: threads")
        best = _fastest(opened, prepared, [best, *threads], data, folder)
    profiled = 2 * (len(plans) + len(floats))
    return CpuSearch(best, profiled + len(measured) + len(threads), time.monotonic() - start_s)


def in_floats(graph: Graph, choices: Sequence[CpuChoice]) -> list[CpuChoice]:
    """The same choices without eight bits, where a graph rounds to these."""
    rounding = ("FakeQuantize", "Round")  # to known steps, and to those that are found as the model runs
    rounds = any(node.op in rounding or node.attrs.get("activation") == "fake_quantize" for node in graph.nodes)
    return [choice.model_copy(update={"quantized": False}) for choice in choices if rounds]


def _with_best_algorithms(opened: OpenUnit, prepared: Prepared, block: int, data: TestData, folder: Path) -> CpuChoice:
    """Winograd's convolution, and one step for several, for those layers that are faster so, all timed in the model."""
    valid_for = cpu_choice.validity(prepared.graph, opened.probe.cpu)
    graph = prepared.graph
    winograd = frozenset(node.output for node in graph.nodes if node.op == "Conv" and takes_winograd(graph, node))
    none, every = frozenset[str](), frozenset(node.output for node in graph.nodes if node.op == "Conv")
    direct = CpuChoice(valid_for=valid_for, block=8 if block == 8 else 16, winograd=none, separable=none)
    other = direct.model_copy(update={"winograd": winograd, "separable": every})
    ways = [written(opened, prepared, choice, folder) for choice in (direct, other)]
    before, kernels = ({step.name: step.kernel for step in way.plan.steps} for way in ways)
    if before == kernels:
        return direct.model_copy(update={"separable": None})
    first, second = _step_times(opened, ways, data)
    steps = (node for node in graph.nodes if node.name in second)
    winners = {n.output: kernels[n.name] for n in steps if second[n.name] < step_ns(graph, n, first, second)}
    return direct.model_copy(
        update={
            "winograd": frozenset(o for o, k in winners.items() if k in _WINOGRAD),
            "separable": frozenset(o for o, k in winners.items() if k == BLOCKED_SEPARABLE),
        }
    )


def step_ns(graph: Graph, node: Node, times: Mapping[str, float], others: Collection[str]) -> float:
    """The time of a node's step, and of those before it that are no steps of their own in another plan."""
    before = graph.producer(node.inputs[0])
    joined = before is not None and before.name in times and before.name not in others
    return times.get(node.name, 0.0) + (step_ns(graph, before, times, others) if before is not None and joined else 0.0)


def _mixed(
    opened: OpenUnit, prepared: Prepared, ways: tuple[CpuChoice, CpuChoice], data: TestData, folder: Path
) -> CpuChoice | None:
    """The cheapest choice for each operator, of plans in eight bits and in floats; None where it is one of these."""
    target, options = opened.planner.target(prepared, "cpu"), prepared.options()
    if not target.cpu_quantized:
        return None
    options = dataclasses.replace(options, cpu=ways[0].options)
    graph = fused_in_bytes(prepared.graph, target, options)
    in_bytes = choose_quantized(Builder(graph, target, options), options.keep)
    made = [written(opened, prepared, way, folder) for way in ways]
    times = _step_times(opened, made, data)
    found = floats_of_least_time(graph, in_bytes, operator_times(graph, in_bytes, made[0].plan, times))
    is_mixed = found and found != in_bytes.nodes.keys()
    return ways[0].model_copy(update={"in_floats": found}) if is_mixed else None


def operator_times(graph: Graph, in_bytes: InBytes, plan: Plan, times: Sequence[Mapping[str, float]]) -> OperatorTimes:
    """Times by output; `graph`, `plan`: in eight bits, `times`: of the steps of both plans, by name, in ns."""
    names, bytes_ns, floats_ns = {node.output: node.name for node in graph.nodes}, *times
    rounded = {name: result for name, result in in_bytes.nodes.items() if result != name}
    parts = {node.output: node.attrs.get("parts", (node.name,)) for node in graph.nodes}
    floats = {name: sum(floats_ns.get(part, 0.0) for part in parts[name]) for name in in_bytes.nodes}
    floats |= {name: floats[name] + floats_ns.get(names[result], 0.0) for name, result in rounded.items()}
    spent = [[0.0, 0.0], [0.0, 0.0]]  # ns and elements, into bytes and out of them
    for step in plan.steps:
        if step.kernel is QUANTIZED_REORDER and step.name in bytes_ns:
            way = spent[0 if step.note.endswith("eight bits") else 1]
            way[0] += bytes_ns[step.name]
            way[1] += math.prod(step.shown.output_shape)
    rates = [ns / elements for ns, elements in spent if elements] or [0.0]
    into, out_of = (ns / elements if elements else max(rates) for ns, elements in spent)
    return OperatorTimes({name: bytes_ns.get(names[name], 0.0) for name in in_bytes.nodes}, floats, (into, out_of))


def _step_times(opened: OpenUnit, ways: Sequence[CpuPlan], data: TestData) -> list[dict[str, float]]:
    """The median time of each step by name, in ns, of each plan; their profiles are made in turns."""
    samples: list[dict[str, list[float]]] = [{step.name: [] for step in way.plan.steps} for way in ways]
    with contextlib.ExitStack() as stack:
        units = [stack.enter_context(opened.twin()) for _ in ways]
        for own, way in zip(units, ways, strict=True):
            own.load(way.path, execution=way.execution)
            first_rounds(own, data.inputs)
        for turn in range(PROFILES):
            for index in range(len(ways)) if turn % 2 == 0 else reversed(range(len(ways))):
                steps = ways[index].plan.steps
                times = profile(units[index].session, PROFILED_ROUNDS, len(steps), DEADLINE_S).steps
                for step, found in zip(steps, times, strict=True):
                    samples[index][step.name] += found.ns
    return [{name: statistics.median(ns) for name, ns in of_way.items() if ns} for of_way in samples]


def _fastest(
    opened: OpenUnit, prepared: Prepared, choices: Sequence[CpuChoice], data: TestData, folder: Path
) -> CpuChoice:
    ways = [written(opened, prepared, choice, folder) for choice in choices]
    measured, _ = measure_plans(opened, ways, data, TRIAL)
    medians = [way.latency_ms.median for way in measured]
    return choices[medians.index(min(medians))]


def other_threads(given: Execution, best: CpuChoice, cpu: CpuAnswer) -> Iterator[CpuChoice]:
    """Lists the plan with fewer threads and on big cores alone; empty where the user names the threads."""
    if given.num_threads is not None or given.cpu_affinity_policy is not None:
        return
    number = 1
    while number < cpu.cores:
        yield best.model_copy(update={"threads": number})
        number *= 2
    if len(set(cpu.max_khz)) > 1:
        yield best.model_copy(update={"affinity": "big_only"})
