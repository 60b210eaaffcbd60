"""A choice is kept as text, and refused where it is damaged, of another version or for another graph."""

import json

import pytest

from runtime.errors import FormatError, ModelError
from runtime.lowering.choice import GraphChoice, NodeChoice, Place, graph_choice, graph_hash
from runtime.types import Algorithm, Precision
from tests.runtime.graphs import GraphMaker


def made() -> GraphChoice:
    return GraphChoice({"a": NodeChoice(Place.IMAGE, Algorithm.WINOGRAD_4), "b": NodeChoice(Place.CPU)}, "0" * 32)


def mixed() -> GraphChoice:
    float_convolution = NodeChoice(Place.IMAGE, Algorithm.WINOGRAD_4, Precision.FP32)
    return GraphChoice({"a": float_convolution, "b": NodeChoice(Place.BUFFER, precision=Precision.FP16)}, "0" * 32)


@pytest.mark.parametrize("choice", [made(), mixed()])
def test_text_and_back(choice: GraphChoice) -> None:
    assert GraphChoice.from_json(choice.to_json()) == choice


def test_the_version_without_precisions_is_still_read() -> None:
    text = json.dumps(json.loads(made().to_json()) | {"version": 1})
    assert GraphChoice.from_json(text) == made() and made().precisions == ()
    assert mixed().precisions == (Precision.FP32, Precision.FP16)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 99}, "version 99, this farm reads 1 and 2"),
        ({"kind": "recipe"}, "not a 'farm graph choice'"),
        ({"nodes": {"a": ["disk", "direct"]}}, "damaged .*'disk'"),
        ({"nodes": {"a": ["cpu"]}}, "damaged"),
        ({"nodes": {"a": ["cpu", "direct", "fp8"]}}, "damaged .*'fp8'"),
        ({"nodes": {"a": ["cpu", "direct", "fp32", "fp16"]}}, "damaged"),
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
