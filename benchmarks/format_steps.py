"""Steps of networks in NCHW and of their twins that were exported in NHWC: `python -m benchmarks.format_steps`.

Prints the table of docs/data-formats.md: steps on buffers and on images, and what converting the twins took.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import onnx

from benchmarks.format_networks import NETWORKS
from benchmarks.nhwc_twins import STYLES, nhwc_twin
from runtime.convert import convert
from runtime.graph import Graph
from runtime.lowering.lower import lower
from runtime.target import Target

SIZE = 224
PHONE = Target("phone", "arm64-v8a", gpu_family="adreno-6xx", allow_cpu=True)
HEAD = (
    "| Network | ONNX nodes | NCHW | NHWC, Mul and Add | NHWC, between Transposes | converted, s |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
)


def lines() -> Iterator[str]:
    """The table, a row for each network; ONNX nodes and time are those of the twin with the most of them."""
    yield from HEAD
    for name, build in NETWORKS.items():
        model = build(SIZE)
        twins = [nhwc_twin(model, style) for style in STYLES]
        converted = [_converted(twin) for twin in twins]
        nodes, seconds = max(len(twin.graph.node) for twin in twins), max(spent for _, spent in converted)
        graphs = [_converted(model)[0], *(graph for graph, _ in converted)]
        cells = [name, str(nodes), *map(_steps, graphs), f"{seconds:.1f}"]
        yield f"| {' | '.join(cells)} |"


def _converted(model: onnx.ModelProto) -> tuple[Graph, float]:
    started = time.perf_counter()
    graph, _ = convert(model)
    return graph, time.perf_counter() - started


def _steps(graph: Graph) -> str:
    """On buffers / on images."""
    targets = (dataclasses.replace(PHONE, memory=memory) for memory in ("buffer", "image"))
    return " / ".join(str(len(lower(graph, target).steps)) for target in targets)


if __name__ == "__main__":
    for line in lines():
        print(line)
