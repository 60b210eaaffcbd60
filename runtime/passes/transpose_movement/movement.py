"""Moves transpositions through transposable operators until what is left moves the fewest bytes."""

from __future__ import annotations

from runtime.formats.permutation import Permutation, inverse
from runtime.graph import Graph
from runtime.passes.editor import GraphEditor
from runtime.passes.transpose_movement.minimum_cut import best_frames
from runtime.passes.transpose_movement.rebuilding import Choice, Rebuilding
from runtime.passes.transpose_movement.regions import find_regions


def move_transposes(graph: Graph) -> list[str]:
    """Chooses anew, for each permutation and each region, on which side of its operators transpositions stand.

    `regions.py` says what a region is, `minimum_cut.py` which choice is the best. Operators that move are rewritten,
    with their constants. Each repetition makes the graph better in bytes, in Transposes or in what can be fused.
    """
    changes: list[str] = []
    while found := [change for perm in _permutations(graph) for change in _moved(graph, perm)]:
        changes += found
    return changes


def _permutations(graph: Graph) -> list[Permutation]:
    """One of each pair of a permutation and its inverse that the graph transposes by."""
    perms = {node.attrs["perm"] for node in graph.nodes if node.op == "Transpose"}
    return sorted({min(perm, inverse(perm)) for perm in perms if perm != tuple(sorted(perm))})


def _moved(graph: Graph, perm: Permutation) -> list[str]:
    pairs = [(region, best_frames(region)) for region in find_regions(GraphEditor(graph), perm)]
    choices = [Choice(region, frames) for region, frames in pairs if frames is not None]
    if not choices:
        return []
    rebuilding = Rebuilding(graph, choices)
    rebuilding.run()
    GraphEditor(graph).finish()
    return rebuilding.changes
