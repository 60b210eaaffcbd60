"""Compares ways through whole networks: all in buffers, all in images, node by node, and the exact choice.

    python -m benchmarks.selection [NETWORK ...]

Prints a table in Markdown: ms (conversions) of each way. Costs are those of two modelled GPUs, one faster on images and
one faster on buffers: the peaks of these families in runtime/peaks.py, no measurements of a device. Its last lines have
the time that a graph of 1,000 operators takes, in float and with float or half for each of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from benchmarks.format_networks import reflected_middle
from benchmarks.networks import zoo_names
from benchmarks.nhwc_twins import nhwc_twin
from runtime import zoo
from runtime.convert import convert
from runtime.graph import Graph, Node, TensorInfo
from runtime.lowering.builder import Builder
from runtime.lowering.choice import GraphChoice, Place
from runtime.lowering.lower import Options, emit_launches
from runtime.operators.table import infer_shape
from runtime.peaks import peaks_of
from runtime.selection.baselines import everywhere, node_by_node
from runtime.selection.candidates import Candidates
from runtime.selection.costs import AnalyticCosts, LaunchCosts, modelled_costs, total_ms
from runtime.selection.listing import find_candidates
from runtime.selection.problem import make_problem
from runtime.selection.selection import GraphSelection, select_among
from runtime.target import Target
from runtime.types import EVERY_ALGORITHM, Precision, Precisions

OPTIONS = Options(algorithms=EVERY_ALGORITHM)
IMAGE_SIDE = 16384
OPERATORS = 1000
LARGE = Target("modelled", "arm64-v8a", image2d_max_width=IMAGE_SIDE, image2d_max_height=IMAGE_SIDE)
GPUS = {
    "likes images": dataclasses.replace(LARGE, gpu_family="adreno-6xx", compute_units=4),
    "likes buffers": dataclasses.replace(LARGE, gpu_family="mali-bifrost", compute_units=9),
}


def networks(names: Sequence[str]) -> Mapping[str, Callable[[], onnx.ModelProto]]:
    """The zoo's networks of images, one of them as exported in NHWC, and one with light operators amid heavy ones."""
    images = [name for name in zoo_names() if len(zoo.describe(name).input_shape) == 4]
    made: dict[str, Callable[[], onnx.ModelProto]] = {name: _of_zoo(name) for name in images}
    made["mobilenet_v2 in NHWC"] = lambda: nhwc_twin(made["mobilenet_v2"](), "affine")
    made["reflected_middle"] = lambda: reflected_middle(112)
    return {name: make for name, make in made.items() if not names or name in names}


def _of_zoo(name: str) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        model = zoo.build(name)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
        return model

    return build


@dataclasses.dataclass(frozen=True)
class Way:
    """A way through a network: its launches, as lowered."""

    name: str
    choice: GraphChoice
    builder: Builder

    def predicted(self, costs: LaunchCosts) -> float:
        return total_ms(self.builder.launches, costs)

    def cell(self, costs: LaunchCosts) -> str:
        return f"{self.predicted(costs):.2f} ({len(self.builder.conversions)})"


def ways(candidates: Candidates, target: Target, costs: LaunchCosts) -> tuple[list[Way], GraphSelection]:
    """All ways through a graph, the exact choice last."""
    problem = make_problem(candidates, costs)
    buffers, images = (everywhere(problem, place) for place in (Place.BUFFER, Place.IMAGE))
    preferred = images if target.memory == "image" else buffers
    selection = select_among(candidates, costs)
    choices = {
        "all buffers": buffers,
        "all images": images,
        "node by node": node_by_node(problem, preferred),
        "exact": selection.choice,
    }
    made = [
        Way(name, choice, emit_launches(candidates.graph, target, dataclasses.replace(OPTIONS, choice=choice)))
        for name, choice in choices.items()
    ]
    return made, selection


def _modelled_row(name: str, gpu: str, graph: Graph) -> str:
    target = GPUS[gpu]
    costs = AnalyticCosts(peaks_of(target))
    found, selection = ways(find_candidates(graph, target, OPTIONS), target, costs)
    cells = " | ".join(way.cell(costs) for way in found)
    return f"| {name} | {gpu} | {len(graph.nodes)} | {cells} | {selection.gap:.0%} |"


# A large graph


def large_graph(operators: int, seed: int = 0) -> Graph:
    """Residual blocks, branches that a Concat joins, and light operators, in a drawn order; shapes stay the same."""
    random = np.random.default_rng(seed)
    channels, size = 32, 28
    graph = Graph("large", ["image"], [], [], {"image": TensorInfo((1, channels, size, size))}, {})

    def add(op: str, *inputs: str, **attrs: object) -> str:
        name = f"t{len(graph.nodes)}"
        graph.nodes.append(Node(op, f"n{len(graph.nodes)}", list(inputs), [name], attrs))
        graph.tensors[name] = TensorInfo(infer_shape(op, [graph.shape(each) for each in inputs], attrs))
        return name

    def conv(x: str, k: int, *residual: str) -> str:
        shape = (channels, graph.shape(x)[1], k, k)
        weights = graph.add_constant(f"w{len(graph.nodes)}", np.zeros(shape, np.float32))
        bias = graph.add_constant(f"b{len(graph.nodes)}", np.zeros(channels, np.float32))
        window = {"strides": (1, 1), "pads": (k // 2,) * 4, "dilations": (1, 1), "group": 1}
        return add("Conv", x, weights, bias, *residual, **window)

    x = "image"
    while len(graph.nodes) < operators - 4:
        kind = random.integers(4)
        if kind == 0:
            x = conv(conv(x, 3), 1, x)
        elif kind == 1:
            x = conv(add("Concat", conv(x, 1), conv(x, 3), axis=1), 1)
        elif kind == 2:
            x = add("Pad", x, pads=(0, 0, 0, 1, 0, 0, 0, 0), value=0.0, mode="reflect")
            x = conv(add("Slice", x, starts=(1,), ends=(size + 1,), axes=(3,), steps=(1,)), 1)
        else:
            x = add("Add", add("Sigmoid", x), conv(x, 3))
    while len(graph.nodes) < operators:
        x = add("Relu", x)
    graph.outputs = [x]
    return graph


def _large_line(precisions: Precisions) -> str:
    target = GPUS["likes images"]
    graph, costs = large_graph(OPERATORS), modelled_costs(target)
    start_s = time.perf_counter()
    candidates = find_candidates(graph, target, OPTIONS, precisions)
    listed_s = time.perf_counter()
    selection = select_among(candidates, costs)
    end_s = time.perf_counter()
    return (
        f"{len(graph.nodes)} operators, {max(len(precisions), 1)} precisions: "
        f"candidates in {listed_s - start_s:.1f} s, selected in {end_s - listed_s:.1f} s, "
        f"gap {selection.gap:.0%}, {len(selection.conversions)} conversions"
    )


def rule(columns: int) -> str:
    return "| --- |" + " ---: |" * (columns - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    options = parser.parse_args()
    graphs = {name: convert(make())[0] for name, make in networks(options.networks).items()}
    heads = "all buffers | all images | node by node | exact"
    print(f"| network | GPU (modelled) | operators | {heads} | gap |\n{rule(8)}", flush=True)
    for name, graph in graphs.items():
        for gpu in GPUS:
            print(_modelled_row(name, gpu, graph), flush=True)
    for precisions in ((), (Precision.FP32, Precision.FP16_STORAGE)):
        print(f"\n{_large_line(precisions)}", flush=True)


if __name__ == "__main__":
    main()
