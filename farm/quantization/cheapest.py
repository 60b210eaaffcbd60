"""Which layers to leave in float where each layer's time is known: the fastest model within a limit of noise.

The noise that each layer brings to an output alone adds up there as power (Lin, Talathi and Annapureddy, "Fixed Point
Quantization of Deep Convolutional Networks", 2016), so the choice is a 0/1 program: a layer is in eight bits or in
float, a tensor between two that differ is converted, and the noise of those in eight bits is limited.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import onnx
import pydantic

from farm import atomic_file
from farm.quantization.layers import LayerNodes
from runtime.errors import ConfigError
from runtime.selection.solve import TIME_LIMIT_S, Program

TURNS = 6  # of choosing, and measuring what the choice loses
MARGIN = 1.1  # so many times less noise than allowed is aimed at
GIVES_WAY = 1.3  # the allowed noise over what a choice has, from which on a faster one is looked for


class LayerTimes(pydantic.BaseModel):
    """Times of a model's layers, each as a share of the model's in float, and of a conversion of one element.

    A layer without a time takes none. `into`, `out_of`: from floats into bytes, and from bytes into floats.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    in_bytes: Mapping[str, float]
    in_float: Mapping[str, float]
    into: float = 0.0
    out_of: float = 0.0

    def keep(self, file: Path) -> None:
        """Writes them, whole or not at all."""
        atomic_file.write(file, json.dumps(self.model_dump(), indent=1).encode())


def kept_times(file: Path) -> LayerTimes | None:
    """What was kept; None where nothing was. Raises ConfigError where the file is damaged."""
    try:
        return LayerTimes.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise ConfigError(f"{file}: damaged; delete it, and run farm tune") from None


def cheapest_in_float(
    model: onnx.ModelProto,
    layers: Sequence[LayerNodes],
    powers: Mapping[str, float],
    times: LayerTimes,
    most: float,
    measured: Callable[[frozenset[str]], float],
) -> frozenset[str]:
    """The layers in float of the fastest model found whose noise is at most `most`; all, where that is the fastest.

    `powers`: noise over signal power where a layer alone is in eight bits. `measured` has the model's noise with layers
    in float; it tells how far the sum of powers is off, by which the next choice is corrected, until one is within the
    limit and near to it.
    """
    edges = list(_edges(model, layers))
    best, least, limit = frozenset(powers), 0.0, most
    tried = {best}
    for _ in range(TURNS):
        chosen, cost = _solved(edges, powers, times, limit)
        if chosen in tried:
            break
        tried.add(chosen)
        found = measured(chosen)
        if found <= most and cost < least:
            best, least = chosen, cost
        if found <= most < GIVES_WAY * found or found == 0.0:
            break
        limit *= most / found / (MARGIN if found > most else 1.0)
    return best


@dataclasses.dataclass(frozen=True)
class _Edge:
    """A tensor: its elements, and the layers that write and read it; empty stands for what is always in float."""

    size: int
    writer: str
    readers: frozenset[str]


def _edges(model: onnx.ModelProto, layers: Sequence[LayerNodes]) -> Iterator[_Edge]:
    """The tensors between layers."""
    owner = {node: layer.name for layer in layers for node in layer.nodes}
    nodes, values = model.graph.node, (*model.graph.input, *model.graph.output, *model.graph.value_info)
    writers = {name: owner.get(node.name, "") for node in nodes for name in node.output}
    readers: dict[str, set[str]] = {value.name: {""} for value in model.graph.output}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, set()).add(owner.get(node.name, ""))
    for value in {value.name: value for value in values}.values():
        writer, reading = writers.get(value.name, ""), frozenset(readers.get(value.name, ()))
        if reading - {writer}:
            size = math.prod(max(1, each.dim_value) for each in value.type.tensor_type.shape.dim)
            yield _Edge(size, writer, reading - {writer})


def _solved(
    edges: Sequence[_Edge], powers: Mapping[str, float], times: LayerTimes, most: float
) -> tuple[frozenset[str], float]:
    """The layers in float at the least time, and how much that is beside all in float."""
    program = Program()
    in_bytes = {
        name: program.variable(times.in_bytes.get(name, 0.0) - times.in_float.get(name, 0.0), integral=True)
        for name in powers
    }
    program.row([(at, powers[name] / most) for name, at in in_bytes.items()], 0, 1)
    for edge in edges:
        for cost, sign in ((times.into, 1.0), (times.out_of, -1.0)):
            converted = program.variable(cost * edge.size)
            for reader in edge.readers:  # no less than how it is read, less how it is written
                ends = [(in_bytes[name], way) for name, way in ((reader, -sign), (edge.writer, sign)) if name]
                program.row([(converted, 1.0), *ends], 0, math.inf)
    result = program.solve(TIME_LIMIT_S)
    if result.x is None:
        return frozenset(powers), 0.0
    return frozenset(name for name, at in in_bytes.items() if result.x[at] < 0.5), float(result.fun)
