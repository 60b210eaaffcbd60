"""What tests of the selection share: graphs to draw, all choices of one, and the memory of a plan."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from runtime.graph import Graph, Node, TensorInfo
from runtime.lowering.assembly import lifetimes
from runtime.lowering.builder import Builder
from runtime.lowering.choice import GraphChoice, NodeChoice, Place, graph_choice
from runtime.lowering.launch import Launch
from runtime.lowering.options import Options
from runtime.operators.table import infer_shape
from runtime.selection.candidates import Candidates
from runtime.selection.costs import CostOrigin, LaunchCosts, cost_key
from runtime.selection.evaluation import Evaluation
from runtime.selection.problem import ChoiceProblem
from runtime.target import Target
from runtime.types import EVERY_ALGORITHM
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs

AUTO = Options(algorithms=EVERY_ALGORITHM)
several = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def all_choices(candidates: Candidates) -> Iterator[dict[str, NodeChoice]]:
    names = [node.output for node in candidates.graph.nodes]
    for nodes in itertools.product(*(candidates.choices(node) for node in candidates.graph.nodes)):
        yield dict(zip(names, nodes, strict=True))


def large_graph(operators: int, seed: int = 0) -> Graph:
    """Residual blocks, branches that a Concat joins, and light operators, in a drawn order; shapes stay the same."""
    random = np.random.default_rng(seed)
    channels, size = 32, 28
    graph = Graph("large", ["image"], [], [], {"image": TensorInfo((1, channels, size, size))}, {})

    def add(op: str, *inputs: str, **attrs: object) -> str:
        name = f"t{len(graph.nodes)}"
        graph.nodes.append(Node(op, f"n{len(graph.nodes)}", list(inputs), [name], attrs))
        graph.tensors[name] = TensorInfo(infer_shape(op, [graph.shape(each) for each in inputs], attrs))
        return name

    def conv(x: str, k: int, *residual: str) -> str:
        shape = (channels, graph.shape(x)[1], k, k)
        weights = graph.add_constant(f"w{len(graph.nodes)}", np.zeros(shape, np.float32))
        bias = graph.add_constant(f"b{len(graph.nodes)}", np.zeros(channels, np.float32))
        window = {"strides": (1, 1), "pads": (k // 2,) * 4, "dilations": (1, 1), "group": 1}
        return add("Conv", x, weights, bias, *residual, **window)

    x = "image"
    while len(graph.nodes) < operators - 4:
        kind = random.integers(4)
        if kind == 0:
            x = conv(conv(x, 3), 1, x)
        elif kind == 1:
            x = conv(add("Concat", conv(x, 1), conv(x, 3), axis=1), 1)
        elif kind == 2:
            x = add("Pad", x, pads=(0, 0, 0, 1, 0, 0, 0, 0), value=0.0, mode="reflect")
            x = conv(add("Slice", x, starts=(1,), ends=(size + 1,), axes=(3,), steps=(1,)), 1)
        else:
            x = add("Add", add("Sigmoid", x), conv(x, 3))
    while len(graph.nodes) < operators:
        x = add("Relu", x)
    graph.outputs = [x]
    return graph


@st.composite
def joining_graphs(draw: st.DrawFn) -> Graph:
    """Branches of convolutions that residuals and Concats join, with tensors that several read."""
    make = GraphMaker(seed=draw(st.integers(0, 99)))
    x = make.input(1, 16, 4, 4)
    branches = [make.conv(x, 16, k=draw(st.sampled_from([1, 3])))]
    for _ in range(draw(st.integers(1, 4))):
        source = draw(st.sampled_from(branches))
        kind = draw(st.sampled_from(["conv", "relu", "residual", "reshape"]))
        if kind == "conv":
            branches.append(make.conv(source, 16, k=draw(st.sampled_from([1, 3]))))
        elif kind == "relu":
            branches.append(make.add("Relu", source))
        elif kind == "residual":
            branches.append(make.conv(source, 16, k=1, residual=draw(st.sampled_from(branches))))
        else:
            branches.append(make.add("Reshape", make.add("Reshape", source, shape=(16, 16)), shape=(1, 16, 4, 4)))
    joined = draw(st.lists(st.sampled_from(branches), min_size=1, max_size=5))
    y = make.add("Concat", *joined, axis=1) if len(joined) > 1 else joined[0]
    if draw(st.booleans()):
        y = make.add("Concat", y, draw(st.sampled_from(branches)), axis=1)
    return make.finish(*dict.fromkeys([y, draw(st.sampled_from([*branches, y]))]))


def any_graphs() -> st.SearchStrategy[Graph]:
    """Small graphs of any operators, or of branches that are joined."""
    return random_graphs().map(lambda drawn: drawn[0]) | joining_graphs()


def live_peak(builder: Builder) -> int:
    """The most bytes that live at one launch of a plan."""
    spans = {root: span for root, span in lifetimes(builder).items() if root.data is None}
    return max(
        sum(root.size_bytes for root, (first, last) in spans.items() if first <= at <= last)
        for at in range(len(builder.launches) + 1)
    )


def everywhere(problem: ChoiceProblem, place: Place) -> GraphChoice:
    """Every node in one place where it can run there, else in buffers, else on the CPU, with its cheapest algorithm.

    This is how plans for images and for buffers are lowered without a choice, but for the algorithms.
    """
    nodes = problem.candidates.graph.nodes
    return graph_choice(problem.candidates.graph, {node.output: _first(problem, node, place) for node in nodes})


def _first(problem: ChoiceProblem, node: Node, place: Place) -> NodeChoice:
    order = (place, *(other for other in (Place.BUFFER, Place.CPU, Place.IMAGE) if other != place))
    options = problem.nodes[node.output]
    best = min(options, key=lambda option: (order.index(option.candidate.choice.place), option.milliseconds))
    return best.candidate.choice


def node_by_node(problem: ChoiceProblem, start: GraphChoice) -> GraphChoice:
    """Each node in turn the way that is cheapest while the others stay as they are, once through the graph."""
    chosen, evaluation = dict(start.nodes), Evaluation(problem, start.nodes)
    for node in problem.candidates.graph.nodes:
        costs = {choice: evaluation.with_one(node.output, choice) for choice in problem.candidates.choices(node)}
        possible = {choice: ms for choice, ms in costs.items() if ms is not None}
        best = min(possible, key=lambda choice: possible[choice])
        if best != chosen[node.output]:
            chosen[node.output] = best
            evaluation = Evaluation(problem, dict(chosen))
    return graph_choice(problem.candidates.graph, chosen)


GPU = Target("soc", "abi", gpu_family="adreno-6xx", compute_units=2, image2d_max_width=16384, image2d_max_height=16384)
GPU_AND_CPU = dataclasses.replace(GPU, allow_cpu=True)


@dataclasses.dataclass(frozen=True)
class DrawnCosts:
    """1 to 100 ms for each key, drawn from its hash; conversions cost `conversion` times as much."""

    seed: int
    conversion: float = 1.0

    def milliseconds(self, launch: Launch) -> float:
        digest = hashlib.sha256(f"{self.seed} {cost_key(launch)}".encode()).digest()
        drawn = 1.0 + int.from_bytes(digest[:4], "little") % 100
        return drawn * (self.conversion if "Image" in launch.op or launch.op == "Transpose" else 1.0)

    def origin(self, launch: Launch) -> CostOrigin:
        return CostOrigin.MODELLED


@dataclasses.dataclass(frozen=True)
class Halved:
    """A bound: half of what launches cost."""

    costs: LaunchCosts

    def milliseconds(self, launch: Launch) -> float:
        return self.costs.milliseconds(launch) / 2

    def origin(self, launch: Launch) -> CostOrigin:
        return CostOrigin.MODELLED
