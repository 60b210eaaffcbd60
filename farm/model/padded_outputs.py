"""Reference outputs of a model that finds a number of things: its plan has room for the largest number."""

from collections.abc import Mapping

from runtime.graph import Array, Graph
from runtime.oracle.evaluate import evaluate


def filled(graph: Graph, expected: Mapping[str, Array], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The oracle's outputs in the shapes of the graph: what lies behind them is what the graph itself computes there.

    Only a graph that finds things has such outputs; any other shape that differs is left as it is, to be found wrong.
    """
    if not graph.padded:
        return dict(expected)
    computed = evaluate(graph, inputs)
    return {name: _within(computed[name], value) for name, value in expected.items()}


def _within(room: Array, value: Array) -> Array:
    if room.ndim != value.ndim or any(size > most for size, most in zip(value.shape, room.shape, strict=True)):
        return value
    whole = room.astype(value.dtype)
    whole[tuple(slice(size) for size in value.shape)] = value
    return whole
