"""A choice is kept as text, and refused where it is damaged, of another version or for another graph."""

from __future__ import annotations

import json

import pytest

from runtime.errors import FormatError, ModelError
from runtime.lowering.choice import Algorithm, GraphChoice, NodeChoice, Place, graph_choice, graph_hash
from tests.runtime.graphs import GraphMaker


def made() -> GraphChoice:
    return GraphChoice({"a": NodeChoice(Place.IMAGE, Algorithm.WINOGRAD_4), "b": NodeChoice(Place.CPU)}, "0" * 32)


def test_text_and_back() -> None:
    assert GraphChoice.from_json(made().to_json()) == made()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 99}, "version 99, this farm reads 1"),
        ({"kind": "recipe"}, "not a 'farm graph choice'"),
        ({"nodes": {"a": ["disk", "direct"]}}, "damaged .*'disk'"),
        ({"nodes": {"a": ["cpu"]}}, "damaged"),
        ({"nodes": [1]}, "damaged"),
        ({"graph": None}, "damaged"),
    ],
)
def test_what_is_something_else_is_refused_by_name(change: dict[str, object], problem: str) -> None:
    text = json.dumps(json.loads(made().to_json()) | change)
    with pytest.raises(FormatError, match=f"kept.json: {problem}"):
        GraphChoice.from_json(text, "kept.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', made().to_json()[:40]])
def test_what_is_cut_off_is_refused_by_name(text: str) -> None:
    with pytest.raises(FormatError, match=r"kept\.json"):
        GraphChoice.from_json(text, "kept.json")


def test_another_graph_is_refused() -> None:
    def graph(channels: int) -> GraphMaker:
        make = GraphMaker()
        make.finish(make.conv(make.input(1, 4, 4, 4), channels))
        return make

    small, large = graph(4).graph, graph(8).graph
    choice = graph_choice(small, {node.output: NodeChoice(Place.BUFFER) for node in small.nodes})
    choice.check(small)
    with pytest.raises(ModelError, match="another graph"):
        choice.check(large)
    with pytest.raises(ModelError, match="another graph"):
        GraphChoice({}, graph_hash(small)).check(small)


def test_the_hash_is_of_the_graph_not_of_the_weights() -> None:
    first, second = (GraphMaker(seed=seed) for seed in (1, 2))
    for make in (first, second):
        make.finish(make.conv(make.input(1, 4, 4, 4), 4))
    assert graph_hash(first.graph) == graph_hash(second.graph)
