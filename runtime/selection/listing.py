"""Lists the candidates of a graph: lowers each node alone in every place, algorithm and precision.

A node is lowered by the builder that makes plans, alone, once for each way in which its inputs can lie: so what a
candidate costs is what the plan will hold. Nodes that are equal but for names are listed once.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import UnsupportedError
from runtime.families.convolution.node import gains_by_winograd
from runtime.graph import Graph, Node
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice, Place, described
from runtime.lowering.launch import Conversion, Launch
from runtime.lowering.lower import lower_chosen, places
from runtime.lowering.options import Options
from runtime.lowering.placement import plan_concats
from runtime.lowering.value import Value
from runtime.selection.candidates import CONSTANT, Candidates, Merger, NodeCandidate, Reading, State
from runtime.selection.noise import has_floats
from runtime.target import Target
from runtime.types import Algorithm, Precision, Role, Storage

_SMALL = 64  # elements of a constant up to which its content may matter to a lowering
_JOINT = 3  # inputs of a Concat up to which all combinations of states are listed


def find_candidates(
    graph: Graph, target: Target, options: Options | None = None, precisions: Collection[Precision] = ()
) -> Candidates:
    """Lists the candidates of every node.

    `precisions`: those that each node may have; by default all have the target's, and choices do not name it.

    Raises:
        UnsupportedError: a node cannot run on the target at all; names it and why.
    """
    return _Finder(graph, target, options or Options(), precisions).find()


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """The launches and the wanted storages of inputs (by position) that lowering one node gave."""

    launches: tuple[Launch, ...]
    wants: tuple[tuple[int, Conversion], ...]
    output: State
    scratch_bytes: int


class _Finder:
    def __init__(self, graph: Graph, target: Target, options: Options, precisions: Collection[Precision]) -> None:
        self.graph, self.target = graph, target
        self.precisions: Sequence[Precision | None] = sorted(precisions) or [None]
        self.options = dataclasses.replace(options, choice=None, keep=())
        self.planned = plan_concats(graph)
        self.states: dict[str, tuple[State, ...]] = {}
        self._known: dict[Any, _Outcome | UnsupportedError] = {}
        self._attributes: dict[str, str] = {}
        self._tensors: dict[str, Any] = {}
        self._merger = Merger()
        self._listed: dict[Any, tuple[Node, tuple[NodeCandidate, ...]]] = {}

    def find(self) -> Candidates:
        for name in self.graph.inputs:
            self.states[name] = (self._input_state(name),)
        nodes: dict[str, tuple[NodeCandidate, ...]] = {}
        for node in self.graph.nodes:
            found = nodes[node.output] = self._of_node(node)
            self.states[node.output] = tuple(dict.fromkeys(candidate.output for candidate in found))
        outputs = {name: tuple(self._as_output(name)) for name in self.graph.outputs}
        return Candidates(self.graph, nodes, outputs, self.planned)

    def _input_state(self, name: str) -> State:
        builder = self._builder()
        builder.add_input(name)
        return _state(builder.home(name), ())

    def _of_node(self, node: Node) -> tuple[NodeCandidate, ...]:
        key = self._equal_key(node)
        if key is None:
            return self._merger.merged(self._listed_anew(node))
        if key not in self._listed:
            self._listed[key] = (node, self._merger.merged(self._listed_anew(node)))
        like, found = self._listed[key]
        return found if like is node else _renamed(found, dict(zip(like.inputs, node.inputs, strict=True)))

    def _equal_key(self, node: Node) -> Any:
        """What nodes share whose candidates differ in names only; None where a Concat has a say in them."""
        read = list(filter(None, node.inputs))
        if node.op == "Concat" or any(name in self.planned for name in (node.output, *read)):
            return None
        input_states = tuple(
            (node.inputs.index(name), self._tensor_key(name), self.states.get(name, (CONSTANT,))) if name else None
            for name in node.inputs
        )
        return (node.op, self._attributes_key(node), input_states, self._tensor_key(node.output))

    def _listed_anew(self, node: Node) -> tuple[NodeCandidate, ...]:
        problems: list[UnsupportedError] = []
        found = [
            candidate
            for choice in self._choices(node)
            for containers in self._chains(node.output)
            for candidate in self._of_choice(node, choice, containers, problems)
        ]
        if not found:
            raise problems[0]
        return tuple(found)

    def _choices(self, node: Node) -> list[NodeChoice]:
        algorithms: tuple[Algorithm, ...] = (Algorithm.DIRECT,)
        if node.op == "Conv" and gains_by_winograd(self.graph, node):
            algorithms = self.options.algorithms_on(self.target)
        ways = itertools.product(places(self.target), algorithms, self._precisions(node))
        return [NodeChoice(place, algorithm, precision) for place, algorithm, precision in ways]

    def _precisions(self, node: Node) -> Sequence[Precision | None]:
        """Returns the precisions that change what a node does: none where it reads and writes no floats."""
        return self.precisions if has_floats(self.graph, node) else [None]

    def _chains(self, tensor: str) -> list[tuple[str, ...]]:
        """The tensors that one may become a part of: none, the Concat's, that of the Concat which joins this one..."""
        if tensor not in self.planned:
            return [()]
        container = self.planned[tensor][0]
        return [(), *((container, *further) for further in self._chains(container))]

    def _of_choice(
        self, node: Node, choice: NodeChoice, containers: tuple[str, ...], problems: list[UnsupportedError]
    ) -> Iterator[NodeCandidate]:
        read = list(dict.fromkeys(name for name in node.inputs if name))
        states = [self._states_of_input(name, node, choice, containers) for name in read]
        if node.op == "Concat" and len(read) > _JOINT and _adds_up(choice, states):
            yield from self._joining(node, choice, containers, dict(zip(read, states, strict=True)), problems)
            return
        for combination in itertools.product(*states):
            input_states = dict(zip(read, combination, strict=True))
            agree = _agree({node.output: containers} | {name: state.containers for name, state in input_states.items()})
            if not agree or not all(_lie_within(input_states, state) for state in combination):
                continue
            outcome = self._lowered(node, choice, input_states, containers)
            if isinstance(outcome, UnsupportedError):
                problems.append(outcome)
                continue
            readings = tuple((_reading(node, name, input_states[name], outcome),) for name in read)
            yield NodeCandidate(choice, outcome.launches, outcome.output, readings, outcome.scratch_bytes)

    def _states_of_input(
        self, tensor: str, node: Node, choice: NodeChoice, containers: tuple[str, ...]
    ) -> Sequence[State]:
        """The states of an input that go with a choice: parts of a Concat lie in it where it joins buffers."""
        if self.graph.is_constant(tensor):
            return (CONSTANT,)
        if tensor not in self.planned or self.planned[tensor][0] != node.output:
            return self.states[tensor]
        chain = (node.output, *containers) if choice.place == Place.BUFFER else ()
        return [
            state
            for state in self.states[tensor]
            if state.containers == (chain if choice.element in (None, state.element) else ())
        ]

    def _joining(
        self,
        node: Node,
        choice: NodeChoice,
        containers: tuple[str, ...],
        states: Mapping[str, Sequence[State]],
        problems: list[UnsupportedError],
    ) -> Iterator[NodeCandidate]:
        """A Concat of many inputs as one candidate: what an input needs depends on that input's state alone."""
        states = {
            name: [state for state in own_states if _agree({node.output: containers, name: state.containers})]
            for name, own_states in states.items()
        }
        if not all(states.values()):
            return
        readings = []
        for name, own_states in states.items():
            alternatives = []
            for state in own_states:
                try:
                    outcome = self._lower(node, choice, {**_beside(states, state), name: state}, containers)
                except UnsupportedError as error:
                    problems.append(error)
                    return
                own = tuple(launch for launch in outcome.launches if _copies(launch, node, name))
                reading = _reading(node, name, state, outcome)
                alternatives.append(dataclasses.replace(reading, launches=own))
            readings.append(tuple(alternatives))
        copied = [launch for launch in outcome.launches if any(_copies(launch, node, name) for name in states)]
        shared = tuple(launch for launch in outcome.launches if launch not in copied)
        yield NodeCandidate(choice, shared, outcome.output, tuple(readings))

    # One node, lowered alone

    def _lowered(
        self, node: Node, choice: NodeChoice, input_states: Mapping[str, State], containers: tuple[str, ...]
    ) -> _Outcome | UnsupportedError:
        key = self._key(node, choice, input_states, containers)
        if key not in self._known:
            try:
                self._known[key] = self._lower(node, choice, input_states, containers)
            except UnsupportedError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, UnsupportedError):
            return known
        return dataclasses.replace(known, output=dataclasses.replace(known.output, containers=containers))

    def _lower(
        self, node: Node, choice: NodeChoice, input_states: Mapping[str, State], containers: tuple[str, ...]
    ) -> _Outcome:
        builder = self._builder(
            {node.output: containers} | {name: state.containers for name, state in input_states.items()}
        )
        # Parts before what they lie in, as in a plan: who writes a part begins the wide tensor, which may be written
        # elsewhere afterwards.
        for name in sorted(input_states, key=lambda name: -len(input_states[name].containers)):
            if not self.graph.is_constant(name):
                _lay(builder, name, input_states[name])
        lower_chosen(builder, node, choice)
        converting = {id(conversion.launch) for conversion in builder.conversions}
        own = tuple(launch for launch in builder.launches if id(launch) not in converting)
        wants = tuple((node.inputs.index(conversion.tensor), conversion) for conversion in builder.conversions)
        scratch = _scratch_bytes(builder, own, {node.output, *node.inputs, *containers})
        return _Outcome(own, wants, _state(builder.home(node.output), containers), scratch)

    def _builder(self, chains: Mapping[str, tuple[str, ...]] | None = None) -> Builder:
        """A builder without any tensor, which joins tensors as these chains say."""
        builder = Builder(self.graph, self.target, self.options)
        links = [
            pair for name, containers in (chains or {}).items() for pair in itertools.pairwise((name, *containers))
        ]
        builder.plan_views({name: self.planned[name] for name, _ in links})
        return builder

    def _key(
        self, node: Node, choice: NodeChoice, input_states: Mapping[str, State], containers: tuple[str, ...]
    ) -> Any:
        """All that the outcome depends on, names left out, so that equal nodes are lowered once."""
        inputs = tuple(self._input_key(node, name, input_states) for name in node.inputs)
        output = (self._tensor_key(node.output), self._chain_key(node, node.output, containers))
        return (node.op, self._attributes_key(node), inputs, output, choice)

    def _attributes_key(self, node: Node) -> str:
        if node.output not in self._attributes:
            self._attributes[node.output] = repr(described(node.attrs))
        return self._attributes[node.output]

    def _input_key(self, node: Node, name: str, input_states: Mapping[str, State]) -> Any:
        if not name:
            return None
        state = input_states[name]
        bare = dataclasses.replace(state, containers=()) if state.containers else state
        chain = self._chain_key(node, name, state.containers)
        return (node.inputs.index(name), self._tensor_key(name), bare, chain)

    def _tensor_key(self, name: str) -> Any:
        """Shape and type of a tensor, and the content of a small constant."""
        if name not in self._tensors:
            info, content = self.graph.tensors[name], b""
            if self.graph.is_constant(name) and info.size <= _SMALL:
                content = np.ascontiguousarray(self.graph.constants[name]).tobytes()
            self._tensors[name] = (info.shape, info.dtype.name, content)
        return self._tensors[name]

    def _chain_key(self, node: Node, name: str, containers: tuple[str, ...]) -> Any:
        steps = itertools.pairwise((name, *containers))
        return tuple((self.planned[part][1], self.graph.shape(whole), whole == node.output) for part, whole in steps)

    # The plan's outputs

    def _as_output(self, name: str) -> Iterator[Reading]:
        """Readings of an output; one that others may read row-major and in float lies so for all of them."""
        for state in self.states.get(name, (CONSTANT,)):
            after_reading = self._asked(name, state, (Storage.FLAT, None))
            only_flat = all(conversion.storage == Storage.FLAT for conversion in after_reading)
            yield Reading(name, state, (), after_reading if only_flat else self._asked(name, state, (None,)))

    def _asked(self, name: str, state: State, storages: Iterable[Storage | None]) -> tuple[Conversion, ...]:
        """The conversions of a tensor that is read in these storages, one after the other."""
        builder = self._builder({name: state.containers})
        if not self.graph.is_constant(name):
            _lay(builder, name, state)
        for storage in storages:
            if storage is None:
                builder.output(name)
            elif self.graph.tensors[name].dtype == np.float32:
                with builder.in_precision(self.precisions[0]):
                    builder.read(name, storage)
        return tuple(builder.conversions)


def _agree(chains: Mapping[str, tuple[str, ...]]) -> bool:
    """Returns whether all outcomes agree on which tensor each tensor is a part of, or that it is none."""
    told: dict[str, str] = {}
    links = (pair for name, containers in chains.items() for pair in itertools.pairwise((name, *containers, "")))
    return all(told.setdefault(part, whole) == whole for part, whole in links)


def _lie_within(input_states: Mapping[str, State], part: State) -> bool:
    """Whether those of these tensors that one is a part of lie as their parts do: a Concat in buffers wrote them."""
    return all(
        input_states[container].storage == Storage.NHWC for container in part.containers if container in input_states
    )


def _beside(states: Mapping[str, Sequence[State]], part: State) -> dict[str, State]:
    """The first state of each tensor in which it can lie beside this one."""
    return {
        name: next((state for state in own_states if _lie_within({name: state}, part)), own_states[0])
        for name, own_states in states.items()
    }


def _adds_up(choice: NodeChoice, states: Sequence[Sequence[State]]) -> bool:
    """Whether what a Concat does with an input does not depend on the others: it joins images, or one is never flat."""
    return choice.place == Place.IMAGE or any(
        all(state.storage != Storage.FLAT for state in own_states) for own_states in states
    )


def _copies(launch: Launch, node: Node, tensor: str) -> bool:
    """Returns whether a Concat in buffers copies this input by a launch of its own."""
    value = launch.tensors[0][0]
    return len(launch.tensors) == 2 and value.name == tensor


def _renamed(candidates: Iterable[NodeCandidate], names: Mapping[str, str]) -> tuple[NodeCandidate, ...]:
    """The candidates of one node as those of an equal one, which reads other tensors."""

    def reading(each: Reading) -> Reading:
        name = names[each.tensor]
        wants = (Conversion(name, want.source, want.storage, want.element, want.launch) for want in each.wants)
        return Reading(name, each.state, each.launches, tuple(wants))

    return tuple(
        dataclasses.replace(candidate, readings=tuple(tuple(map(reading, each)) for each in candidate.readings))
        for candidate in candidates
    )


def _reading(node: Node, name: str, state: State, outcome: _Outcome) -> Reading:
    wants = (
        dataclasses.replace(conversion, tensor=name)
        for position, conversion in outcome.wants
        if node.inputs[position] == name
    )
    return Reading(name, state, (), tuple(wants))


def _state(home: Value, containers: tuple[str, ...]) -> State:
    root = home.root
    origin = "input" if root.role == Role.INPUT else "constant" if root.data is not None else "computed"
    return State(home.storage, home.element, home.stride, containers, origin, root is home)


def _scratch_bytes(builder: Builder, launches: Iterable[Launch], tensors: Collection[str]) -> int:
    """Bytes of working memory: of the values that launches write and that are no tensors of the graph."""
    roots = {id(value.root): value.root for launch in launches for value, _ in launch.tensors}
    parts = {container for tensor in tensors for container in builder.containers(tensor)}
    return sum(
        root.size_bytes
        for root in roots.values()
        if root.data is None and root.name not in tensors and root.name not in parts
    )


def _lay(builder: Builder, tensor: str, state: State) -> None:
    """Makes a tensor lie as a state says."""
    if state.storage == Storage.NHWC and state.containers:
        with builder.in_element(state.element):
            if builder.known(tensor, Storage.NHWC) is None:
                builder.write(tensor, Storage.NHWC)
        return
    shape = builder.graph.shape(tensor)
    role = Role.INPUT if state.origin == "input" else Role.INTERMEDIATE
    data = np.zeros(1) if state.origin == "constant" else None
    root = Value(tensor, shape, state.storage, state.element, state.stride, role=role, data=data)
    view = Value(tensor, shape, state.storage, state.element, state.stride, root)
    builder.alias(tensor, root if state.whole else view)
    if role == Role.INPUT:
        builder.inputs.append(root)
