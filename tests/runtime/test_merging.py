"""Candidates that are merged are the same ways in fewer candidates, whatever the graph."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.graph import Graph
from runtime.selection.candidates import Candidates, NodeCandidate
from runtime.selection.costs import cost_key
from runtime.selection.listing import find_candidates
from runtime.selection.merging import Merger
from runtime.types import Precisions
from tests.runtime.selection_costs import GPU, GPU_AND_CPU
from tests.runtime.selection_graphs import AUTO, any_graphs, large_graph, several
from tests.runtime.test_mixed_precision import BOTH


def unmerged(self: Merger, candidates: Iterable[NodeCandidate]) -> tuple[NodeCandidate, ...]:
    return tuple(candidates)


def each_way(candidate: NodeCandidate) -> Iterator[object]:
    """What a candidate is for each combination of its readings."""
    launches = tuple(map(cost_key, candidate.launches))
    for readings in itertools.product(*candidate.readings):
        read = tuple(
            (each.tensor, each.state, tuple((want.tensor, cost_key(want.launch)) for want in each.wants))
            for each in readings
        )
        yield candidate.choice, candidate.output, launches, candidate.scratch_bytes, read


def ways_of_each_node(candidates: Candidates) -> dict[str, Counter[object]]:
    return {
        name: Counter(way for candidate in found for way in each_way(candidate))
        for name, found in candidates.nodes.items()
    }


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from([(), BOTH]), st.booleans())
def test_nothing_is_lost_and_nothing_is_added(graph: Graph, precisions: Precisions, has_cpu: bool) -> None:
    target = GPU_AND_CPU if has_cpu else GPU
    merged = find_candidates(graph, target, AUTO, precisions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Merger, "merged", unmerged)
        every = find_candidates(graph, target, AUTO, precisions)
    assert ways_of_each_node(merged) == ways_of_each_node(every)


def test_inputs_add_up_instead_of_multiplying() -> None:
    """An Add of two computed tensors has one candidate for each choice, with every state of each tensor."""
    graph = large_graph(40)
    found = find_candidates(graph, GPU, AUTO, BOTH)
    add = [node for node in graph.nodes if node.op == "Add"][-1]
    candidates = found.nodes[add.output]
    assert len(candidates) == len(found.choices(add)) == 4
    for candidate in candidates:
        for name, readings in zip(add.inputs, candidate.readings, strict=True):
            assert {each.state for each in readings} == {each.output for each in found.nodes[name]}
