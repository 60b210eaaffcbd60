"""Moves transpositions through transposable operators until what is left moves the fewest bytes."""

import dataclasses

from runtime.formats.permutation import Permutation, inverse
from runtime.graph import Graph
from runtime.passes.editor import GraphEditor
from runtime.passes.rounds import repeated
from runtime.passes.transpose_movement.cost import graph_cost
from runtime.passes.transpose_movement.minimum_cut import best_frames
from runtime.passes.transpose_movement.rebuilding import Choice, Rebuilding
from runtime.passes.transpose_movement.regions import find_regions


def move_transposes(graph: Graph) -> list[str]:
    """Chooses anew, for each permutation and each region, on which side of its operators transpositions stand.

    `regions.py` says what a region is, `minimum_cut.py` which choice is the best. Operators that move are rewritten,
    with their constants. The graph's cost (`cost.py`) falls with each repetition.
    """
    changes: list[str] = []

    def one_round() -> bool:
        found = [change for perm in _permutations(graph) for change in _moved(graph, perm)]
        changes.extend(found)
        return bool(found)

    notes = repeated("transpose movement", one_round)
    return changes + notes


def _permutations(graph: Graph) -> list[Permutation]:
    """One of each pair of a permutation and its inverse that the graph transposes by."""
    perms = {node.attrs["perm"] for node in graph.nodes if node.op == "Transpose"}
    return sorted({min(perm, inverse(perm)) for perm in perms if perm != tuple(sorted(perm))})


def _moved(graph: Graph, perm: Permutation) -> list[str]:
    """What was moved for a permutation; nothing, and the graph as it was, where it would cost no less."""
    pairs = [(region, best_frames(region)) for region in find_regions(GraphEditor(graph), perm)]
    choices = [Choice(region, frames) for region, frames in pairs if frames is not None]
    if not choices:
        return []
    rebuilt = dataclasses.replace(
        graph, tensors=dict(graph.tensors), constants=dict(graph.constants), moved=dict(graph.moved)
    )
    rebuilding = Rebuilding(rebuilt, choices)
    rebuilding.run()
    GraphEditor(rebuilt).finish()
    if graph_cost(rebuilt) >= graph_cost(graph):
        return []
    vars(graph).update(vars(rebuilt))
    return rebuilding.changes
