"""Noise for the inputs of graphs that are tried alone: of each input's type, in the range that its reader takes."""

import numpy as np

from runtime.graph import Array, Graph
from runtime.operators.table import OPERATORS

_RANGE = (-1.0, 1.0)


def trial_inputs(graph: Graph, random: np.random.Generator, in_half: bool = False) -> dict[str, Array]:
    """Uniform noise for every input of a graph; a user's operator says in which range, all others take -1 to 1.

    `in_half`: floats that half holds too, so that an operator in float sees the same where its input came by half.
    """
    inputs = {name: _noise(graph, name, random) for name in graph.inputs}
    return {name: _rounded(array) if in_half else array for name, array in inputs.items()}


def _rounded(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32) if array.dtype == np.float32 else array


def _noise(graph: Graph, name: str, random: np.random.Generator) -> Array:
    low, high = _range(graph, name)
    info = graph.tensors[name]
    noise = random.uniform(low, high, info.shape)
    return np.asarray(noise > (low + high) / 2 if info.dtype == np.bool_ else noise.astype(info.dtype))


def _range(graph: Graph, name: str) -> tuple[float, float]:
    """The range of the first reader."""
    for node in graph.consumers(name):
        custom = OPERATORS[node.op].custom
        return custom.input_ranges[node.inputs.index(name)] if custom else _RANGE
    return _RANGE
