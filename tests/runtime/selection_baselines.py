"""Choices made by a rule, to compare the exact one with."""

from __future__ import annotations

from runtime.graph import Node
from runtime.lowering.choice import GraphChoice, NodeChoice, Place, graph_choice
from runtime.selection.evaluation import Evaluation
from runtime.selection.problem import ChoiceProblem


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
