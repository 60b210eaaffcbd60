"""What tests of the selection share: graphs to draw, all choices of one, and the memory of a plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from runtime.graph import Graph
from runtime.lowering.assembly import lifetimes
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice
from runtime.lowering.options import Options
from runtime.selection.candidates import Candidates
from runtime.types import EVERY_ALGORITHM
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs

AUTO = Options(algorithms=EVERY_ALGORITHM)
several = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def all_choices(candidates: Candidates) -> Iterator[dict[str, NodeChoice]]:
    names = [node.output for node in candidates.graph.nodes]
    for nodes in itertools.product(*(candidates.choices(node) for node in candidates.graph.nodes)):
        yield dict(zip(names, nodes, strict=True))


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
