"""Scale and shift of a normalisation, which are constants and may be absent."""

from collections.abc import Iterator

import numpy as np

from runtime.graph import Array, Graph, Node


def scale_and_shift(graph: Graph, node: Node, channels: int) -> Iterator[tuple[str, Array]]:
    """Yields name and values of scale and shift; absent ones are ones and zeros."""
    for index, (what, fill) in enumerate((("scale", 1.0), ("shift", 0.0)), start=1):
        given = node.input(index)
        data = graph.constants[given] if given else np.full(channels, fill, np.float32)
        yield given or f"{node.name}:{what}", data.reshape(-1)
