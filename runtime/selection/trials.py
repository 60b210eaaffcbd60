"""Trial plans of candidates: nodes as they may be chosen, side by side, so that each launch is timed and checked."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from runtime.graph import Graph, Node
from runtime.kernels.spec import Kernel, Variant
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice
from runtime.lowering.launch import Launch
from runtime.lowering.lower import lower_chosen
from runtime.lowering.options import Options
from runtime.lowering.trials import TrialPlan, Use, alone, append, plan_of_trials
from runtime.plan.records import StepKind
from runtime.selection.candidates import Candidates, NodeCandidate
from runtime.selection.costs import cost_key
from runtime.target import Target
from runtime.types import ElementType, Storage


@dataclasses.dataclass(frozen=True)
class CandidateNode:
    """A node with a choice, and the storage and element type of each computed tensor that it reads.

    `keys`: the costs' keys of its launches, and of the conversions that it asks for.
    """

    graph: Graph
    node: Node
    choice: NodeChoice
    forms: Mapping[str, tuple[Storage, ElementType]]
    keys: frozenset[str]


@dataclasses.dataclass(frozen=True)
class UntunedStep:
    """A step whose launch cannot be varied: its index in the plan, its cost's key, and its kernel and variant."""

    step: int
    key: str
    kernel: Kernel
    variant: Variant
    on_cpu: bool


@dataclasses.dataclass(frozen=True)
class CandidatePlan:
    """A trial plan, and the steps that it has beside the launches that can be tried."""

    trials: TrialPlan
    untuned: tuple[UntunedStep, ...]

    @property
    def keys(self) -> set[str]:
        """The costs' keys of all that can be timed."""
        return {launch.key for launch in self.trials.launches} | {step.key for step in self.untuned}


def nodes_with(keys: Iterable[str], candidates: Candidates) -> list[CandidateNode]:
    """Candidates that have the launches of these keys, in the order of the keys; each brings one that none before has.

    Keys that no candidate has are left out.
    """
    having: dict[str, CandidateNode] = {}
    for node in candidates.graph.nodes:
        for candidate in _one_by_one(candidates.nodes[node.output]):
            launches = (*_launches(candidate), *_to_output(candidates, node, candidate))
            of_node = _candidate_node(candidates.graph, node, candidate, launches)
            for key in of_node.keys:
                having.setdefault(key, of_node)
    chosen: dict[int, CandidateNode] = {}
    covered: set[str] = set()
    for key in keys:
        if key in having and key not in covered:
            chosen[id(having[key])] = having[key]
            covered |= having[key].keys
    return list(chosen.values())


def _one_by_one(found: Iterable[NodeCandidate]) -> Iterator[NodeCandidate]:
    """Candidates with one reading of each input, so many that each alternative is there once."""
    for candidate in found:
        for at in range(max(map(len, candidate.readings), default=1)):
            readings = tuple((each[min(at, len(each) - 1)],) for each in candidate.readings)
            yield dataclasses.replace(candidate, readings=readings)


def _candidate_node(graph: Graph, node: Node, candidate: NodeCandidate, launches: Iterable[Launch]) -> CandidateNode:
    computed = {each.tensor: each.state for (each,) in candidate.readings if each.state.origin == "computed"}
    forms = {tensor: (state.storage, state.element) for tensor, state in computed.items()}
    return CandidateNode(graph, node, candidate.choice, forms, frozenset(map(cost_key, launches)))


def _launches(candidate: NodeCandidate) -> Iterable[Launch]:
    """The launches of a candidate with one reading of each input, and the conversions that these ask for."""
    yield from candidate.launches
    for (reading,) in candidate.readings:
        yield from reading.launches
        yield from (conversion.launch for conversion in reading.wants)


def _to_output(candidates: Candidates, node: Node, candidate: NodeCandidate) -> Iterable[Launch]:
    """The conversions of what it writes to an output of the plan, where that is one."""
    for reading in candidates.outputs.get(node.output, ()):
        if reading.state == candidate.output:
            yield from (conversion.launch for conversion in reading.wants)


def candidate_plan(nodes: Sequence[CandidateNode], target: Target, options: Options) -> CandidatePlan:
    """The launches of some candidates as a plan for trials: each node reads inputs of its own, lying as it has them.

    What brings these inputs into place, and takes the outputs away, belongs to no candidate: it cannot be tried.
    """
    merged = Graph("candidates", [], [], [], {}, {})
    alone_nodes = [alone(each.graph, each.node, f"{index}:") for index, each in enumerate(nodes)]
    for single in alone_nodes:
        append(merged, single)
    plain = dataclasses.replace(options, choice=None, reuse_memory=False, keep=(), obfuscate=False)
    builder = Builder(merged, target, plain)
    for name in merged.inputs:
        builder.add_input(name)
    for each, single in zip(nodes, alone_nodes, strict=True):
        _lay_inputs(builder, single, each)
        lower_chosen(builder, single.nodes[0], each.choice)
        builder.output(single.outputs[0])
    wanted = frozenset[str]().union(*(each.keys for each in nodes))
    launches = [launch for launch in builder.launches if cost_key(launch) in wanted]
    uses = {launch.tuning_key: [Use(merged.name, launch.name)] for launch in launches if launch.tuning_key}
    untuned = {cost_key(launch): launch for launch in launches if not launch.tuning_key}
    trials = plan_of_trials(builder, uses)
    index_of = {id(launch): index for index, launch in enumerate(builder.launches)}
    return CandidatePlan(trials, tuple(_untuned(key, launch, index_of[id(launch)]) for key, launch in untuned.items()))


def _lay_inputs(builder: Builder, single: Graph, candidate: CandidateNode) -> None:
    """Makes the inputs of a node lie as it finds them; noise of another type than float stays as it is."""
    for name, given in zip(single.nodes[0].inputs, candidate.node.inputs, strict=True):
        if given in candidate.forms and name in single.inputs and single.tensors[name].dtype == np.float32:
            storage, element = candidate.forms[given]
            with builder.in_element(element):
                builder.alias(name, builder.read(name, storage))


def _untuned(key: str, launch: Launch, index: int) -> UntunedStep:
    return UntunedStep(index, key, launch.kernel, launch.variant, launch.kind == StepKind.CPU)
