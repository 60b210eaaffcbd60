"""BatchNormalization (folded to scale and shift), LRN, Softmax, Dropout."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _batch_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    node.only("training_mode", 0)
    node.only("spatial", 1)
    node.real("momentum", 0.9)  # training only
    gamma, beta, mean, variance = (
        builder.weights(node, index, what).astype(np.float64)
        for index, what in enumerate(("scale", "shift", "mean", "variance"), start=1)
    )
    if not gamma.shape == beta.shape == mean.shape == variance.shape:
        shapes = [value.shape for value in (gamma, beta, mean, variance)]
        raise ModelError(f"{node}: scale, shift, mean and variance have the shapes {shapes}; one is needed")
    divisor = variance + node.real("epsilon", 1e-5)
    if divisor.min(initial=1.0) <= 0:
        raise ModelError(f"{node}: variance '{node.input(4)}' plus epsilon is not positive")
    scale = gamma / np.sqrt(divisor)
    names = [
        builder.derived(f"{node.output}/{what}", value)
        for what, value in (("scale", scale), ("shift", beta - mean * scale))
    ]
    builder.emit(node, "BatchNormalization", [node.input(0), *names], {}, node.output)


def _lrn(node: OnnxNode, builder: GraphBuilder) -> None:
    size = node.integer("size", 0)
    if size < 1 or size % 2 == 0:
        raise node.unsupported("size", size, "an odd number of channels")
    attributes = {
        "alpha": node.real("alpha", 1e-4),
        "beta": node.real("beta", 0.75),
        "bias": node.real("bias", 1.0),
        "size": size,
    }
    builder.emit(node, "LRN", [node.input(0)], attributes, node.output)


def _softmax(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Softmax. Before opset 13 it normalises over all axes from `axis` on, so several are reshaped to one."""
    x = node.input(0)
    shape = builder.shape(x)
    axis = normalized_axis(node, node.integer("axis", -1 if node.opset >= 13 else 1), len(shape))
    if node.opset >= 13 or math.prod(shape[axis + 1 :]) == 1:
        builder.emit(node, "Softmax", [x], {"axis": axis}, node.output)
        return
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    flat = builder.emit(node, "Reshape", [x], {"shape": matrix})
    flat = builder.emit(node, "Softmax", [flat], {"axis": 1})
    builder.emit(node, "Reshape", [flat], {"shape": shape}, node.output)


def normalized_axis(node: OnnxNode, axis: int, rank: int) -> int:
    """Counts an axis from the front; raises ModelError where a tensor of `rank` axes does not have it."""
    if not -rank <= axis < rank:
        raise ModelError(f"{node}: axis {axis} is not an axis of a tensor of {rank} axes")
    return axis % rank


def _dropout(node: OnnxNode, builder: GraphBuilder) -> None:
    node.real("ratio", 0.5)
    node.integer("seed", 0)
    if node.optional(2) and builder.require_constant(node, 2, "training_mode").any():
        raise node.unsupported("training_mode", True, "inference")
    builder.emit(node, "Identity", [node.input(0)], {}, node.output)


OPERATORS: Mapping[str, Handler] = {
    "BatchNormalization": _batch_normalization,
    "LRN": _lrn,
    "Softmax": _softmax,
    "Dropout": _dropout,
}
