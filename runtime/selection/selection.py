"""Selects the cheapest way through a graph, and says what it costs and why."""

import dataclasses
from collections.abc import Mapping

from runtime.graph import Graph, Node
from runtime.lowering.choice import GraphChoice, NodeChoice, graph_choice
from runtime.lowering.options import Options
from runtime.selection.candidates import Candidates
from runtime.selection.costs import CostOrigin, LaunchCosts
from runtime.selection.evaluation import Evaluation, PlanConversion
from runtime.selection.listing import find_candidates
from runtime.selection.memory import CHEAPEST, MemoryGoal, solutions
from runtime.selection.problem import ChoiceProblem, make_problem
from runtime.selection.solve import Solution
from runtime.target import Target


@dataclasses.dataclass(frozen=True)
class NodeSelection:
    """The choice for one node.

    `milliseconds`: of its launches and `origins`: where these costs come from. `alternative`: the choice that would
    cost least if this node alone ran otherwise, and `alternative_ms` the whole plan's cost then; None where there is
    no other way.
    """

    choice: NodeChoice
    milliseconds: float
    origins: tuple[CostOrigin, ...]
    alternative: NodeChoice | None
    alternative_ms: float | None


@dataclasses.dataclass(frozen=True)
class GraphSelection:
    """The cheapest way through a graph.

    `milliseconds`: the sum over all launches, conversions included. `gap`: how much less the optimum may cost at most,
    relative to that and with no more memory; 0 is proven. `nodes`: by the name of their output. `conversions`: those
    that the plan will hold.
    """

    choice: GraphChoice
    milliseconds: float
    gap: float
    nodes: Mapping[str, NodeSelection]
    conversions: tuple[PlanConversion, ...]


def select_choice(
    graph: Graph,
    target: Target,
    costs: LaunchCosts,
    options: Options | None = None,
    memory: MemoryGoal = CHEAPEST,
) -> GraphSelection:
    """The choice of least cost among all, for Options(choice=...), or the one that a goal for activations asks for.

    `options.algorithms` are those that convolutions may have which Winograd's serves.

    Raises:
        UnsupportedError: a node cannot run on the target at all.
        ModelError: no choice keeps the limit.
    """
    return select_among(find_candidates(graph, target, options), costs, memory)


def select_among(candidates: Candidates, costs: LaunchCosts, memory: MemoryGoal = CHEAPEST) -> GraphSelection:
    """Selects among candidates that were listed before, so that the graph is not lowered again."""
    problem = make_problem(candidates, costs)
    return _told(problem, costs, solutions(problem, memory)[-1])


def _told(problem: ChoiceProblem, costs: LaunchCosts, solution: Solution) -> GraphSelection:
    chosen = {name: candidate.choice for name, candidate in solution.nodes.items()}
    evaluation = Evaluation(problem, chosen)
    nodes = {node.output: _of_node(problem, costs, evaluation, node) for node in problem.candidates.graph.nodes}
    choice = graph_choice(problem.candidates.graph, chosen)
    return GraphSelection(choice, evaluation.milliseconds, solution.gap, nodes, evaluation.conversions)


def _of_node(problem: ChoiceProblem, costs: LaunchCosts, evaluation: Evaluation, node: Node) -> NodeSelection:
    name = node.output
    chosen = evaluation.nodes[name]
    others = [choice for choice in problem.candidates.choices(node) if choice != chosen]
    costed = [(ms, other) for other in others if (ms := evaluation.with_one(name, other)) is not None]
    best_ms, best = min(costed, key=lambda pair: pair[0], default=(None, None))
    origins = {costs.origin(launch) for launch in evaluation.launches(name)}
    return NodeSelection(chosen, evaluation.node_ms(name), tuple(sorted(origins)), best, best_ms)
