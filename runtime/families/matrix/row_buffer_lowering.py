"""Layers of one row on an OpenCL driver for CPUs: what is before and beside a layer is computed in its launch.

Such a driver takes 5 us between two launches, in which a tenth of a megabyte of weights would be read. A row that is
divided by the root of its mean square (RMS normalisation) is so while it is read, and a layer and the one that gates it
(SwiGLU) are one launch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from runtime.graph import Array, Node
from runtime.kernels.codes import Residual
from runtime.layout.integer_rows import integer_rows
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice, Place
from runtime.lowering.large_weights import too_large
from runtime.lowering.launcher import WEIGHT_SLACK
from runtime.target import runs_on_cpu

_RESIDUAL, _FACTOR = 3, 4  # inputs
_MOST_PACKED = 64  # rows of a block of weights, which the last ones are filled up to


@dataclasses.dataclass(frozen=True)
class RowProduct:
    """What a layer's launch computes: the rows x that it reads, its weights [layers, rows, cols] and biases, the tensor
    that its sums meet and how, its options, and the attributes that say its activation."""

    x: str
    weights: Array
    bias: Array
    residual: str
    joined: Residual
    defines: Mapping[str, int]
    attrs: Mapping[str, Any]


def row_product(builder: Builder, node: Node) -> RowProduct:
    """That of a layer with what `joined_in_rows` says it computes too."""
    graph, x, (addend, factor) = builder.graph, node.inputs[0], (node.input(_RESIDUAL), node.input(_FACTOR))
    gate = graph.producer(factor) if factor in builder.joined else None
    norm = graph.producer(x) if x in builder.joined else None
    layers, defines = [gate, node] if gate else [node], {"GATED": 1} if gate else {}
    weights = [graph.constants[layer.inputs[1]] for layer in layers]
    if norm is not None:
        x, scale = norm.inputs[0], graph.constants.get(norm.input(1))
        weights = weights if scale is None else [each * scale.reshape(-1) for each in weights]
        defines["ROW_EPSILON"] = int(np.float32(norm.attrs["epsilon"]).view(np.int32))
    if gate:
        stacked, bias = np.stack(weights), np.concatenate([_bias(builder, layer) for layer in layers])
        return RowProduct(x, stacked, bias, "", Residual.NONE, defines, gate.attrs)
    joined = Residual.ADD if addend else Residual.MULTIPLY if factor else Residual.NONE
    return RowProduct(x, weights[0][None], _bias(builder, node), addend or factor, joined, defines, node.attrs)


def _bias(builder: Builder, layer: Node) -> Array:
    graph = builder.graph
    return graph.constants[layer.input(2)] if layer.input(2) else np.zeros(graph.shape(layer.output)[-1], np.float32)


def joined_in_rows(builder: Builder, kept: Collection[str]) -> Iterator[str]:
    """Outputs of nodes that launches of layers compute too; what is `kept` is written."""
    graph, target = builder.graph, builder.target
    if target.memory != "buffer" or not runs_on_cpu(target.gpu_family) or target.precision.computes_in_half:
        return
    free = {node.output for node in graph.nodes}.difference(kept, graph.outputs)
    for node in graph.nodes:
        if node.op == "LayerNormalization" and node.output in free and _is_read_by_rows(builder, node):
            yield node.output
        elif node.op == "FullyConnected" and (gate := _gate(builder, node)) and gate.output in free:
            yield gate.output


def _is_read_by_rows(builder: Builder, norm: Node) -> bool:
    """Whether a row is divided by the root of its mean square, and only layers read it."""
    graph, shape, readers = builder.graph, builder.graph.shape(norm.output), builder.graph.consumers(norm.output)
    is_plain = not norm.attrs["centered"] and not norm.input(2) and "activation" not in norm.attrs
    whole_row = norm.attrs["axes"] == (len(shape) - 1,) and graph.tensors[norm.output].size == shape[-1]
    is_first = all(norm.output not in reader.inputs[1:] for reader in readers)
    alike = is_first and all(_is_row(builder, reader) and _joins(builder, norm, reader) for reader in readers)
    return is_plain and whole_row and bool(readers) and alike


def _gate(builder: Builder, node: Node) -> Node | None:
    """The layer of the same row whose activation a layer's sums are multiplied by, which nothing else reads."""
    graph, factor = builder.graph, node.input(_FACTOR)
    gate = graph.producer(factor) if factor and "activation" not in node.attrs else None
    if gate is None or gate.op != "FullyConnected" or any(gate.inputs[_RESIDUAL:]) or gate.inputs[0] != node.inputs[0]:
        return None
    alone = graph.consumers(factor) == [node] and _joins(builder, gate, node)
    return gate if alone and all(_is_row(builder, layer) for layer in (gate, node)) else None


def _is_row(builder: Builder, layer: Node) -> bool:
    """Whether this is a layer of one row whose weights are floats, and two of its size can be allocated at once."""
    graph = builder.graph
    if layer.op != "FullyConnected" or graph.tensors[layer.output].size != graph.shape(layer.output)[-1]:
        return False
    weights, target = graph.constants[layer.inputs[1]], builder.target
    rows, cols = weights.shape
    elements = 2 * (rows + _MOST_PACKED) * cols + WEIGHT_SLACK
    fits = elements * target.element_bytes <= target.max_allocation_bytes and not too_large(graph, layer, target)
    return fits and not builder.reads_bytes(layer) and integer_rows(weights[None]) is None


def _joins(builder: Builder, part: Node, layer: Node) -> bool:
    """Whether both are to run in buffers, in one precision."""
    if builder.options.choice is None:
        return True
    part_choice, choice = (builder.options.choice.of(node) for node in (part, layer))
    return part_choice == choice == NodeChoice(Place.BUFFER, precision=choice.precision)


ROW_JOINS = (joined_in_rows,)
