"""Typical sizes of an operator, which `farm opbench` measures; `opbench_cases.py` of a family has them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.graph import Array, Graph, Node, TensorInfo
from runtime.operators.table import infer_shape
from runtime.semantics.quantization import Quantization
from runtime.semantics.shape_functions import Shape
from runtime.types import Algorithm

SEED = 7
_STEP = 1 / 32
_LIMITS = (-128 * _STEP, 127 * _STEP)
ROUNDED = "y_floats"  # what is rounded to the output of a case in bytes
IMAGE = (1, 64, 56, 56)  # of a network's middle


@dataclasses.dataclass(frozen=True)
class OperatorCase:
    """A graph of one operator; `algorithm` of a convolution, `conversions`: benchmark the boundary too, `weight_bits`:
    the weights are integers of so many, times a scale for each output (0: floats), `in_bytes`: inputs and output are
    whole steps of eight bits, `integers`: inputs that are int64."""

    name: str
    op: str
    inputs: tuple[Shape, ...]
    weights: tuple[Shape, ...] = ()
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    algorithm: Algorithm = Algorithm.DIRECT
    conversions: bool = False
    weight_bits: int = 0
    in_bytes: bool = False
    integers: tuple[int, ...] = ()

    def graph(self) -> Graph:
        """The graph, with seeded weights."""
        random = np.random.default_rng(SEED)
        graph = Graph(self.name, [f"x{index}" for index in range(len(self.inputs))], ["y"], [], {}, {})
        for index, shape in enumerate(self.inputs):
            dtype = np.dtype(np.int64 if index in self.integers else np.float32)
            graph.tensors[f"x{index}"] = TensorInfo(shape, dtype)
        scale = [1 / math.sqrt(max(1, math.prod(shape[1:]))) for shape in self.weights]
        values = [random.normal(0, s, shape) for s, shape in zip(scale, self.weights, strict=True)]
        if self.weight_bits:
            values[0] = _whole_steps(values[0], self.weight_bits)
        constants = [graph.add_constant(f"w{index}", value.astype(np.float32)) for index, value in enumerate(values)]
        inputs, result = [*graph.inputs], "y"
        if self.in_bytes:
            inputs, result = [_rounded(graph, name, f"{name}_steps") for name in inputs], ROUNDED
        graph.nodes.append(Node(self.op, self.name, [*inputs, *constants], [result], dict(self.attrs)))
        graph.tensors[result] = TensorInfo(infer_shape(self.op, [*self.inputs, *self.weights], self.attrs))
        if self.in_bytes:
            _rounded(graph, result, "y")
        return graph


def _rounded(graph: Graph, source: str, target: str) -> str:
    """Rounds a tensor to steps that floats count exactly."""
    limits = dict(zip(("alpha", "beta"), _LIMITS, strict=True))
    graph.nodes.append(Node("FakeQuantize", target, [source], [target], limits))
    steps = Quantization((_STEP,), (0,), None, "int8")
    graph.tensors[target] = dataclasses.replace(graph.tensors[source], quantization=steps)
    return target


def _whole_steps(weights: Array, bits: int) -> Array:
    most = 2 ** (bits - 1) - 1
    steps = np.abs(weights).max(axis=tuple(range(1, weights.ndim)), keepdims=True).astype(np.float32) / np.float32(most)
    return np.asarray(np.rint(weights / steps).astype(np.float32) * steps)


def sized(op: str, *inputs: Shape, detail: str = "", weights: tuple[Shape, ...] = (), **attrs: Any) -> OperatorCase:
    """A case named by the shape of its first input, and a detail that tells it from others of that shape."""
    return OperatorCase(f"{op}_{shape_text(inputs[0])}{detail and f'_{detail}'}", op, inputs, weights, attrs)


def in_bytes(case: OperatorCase) -> OperatorCase:
    """The case in a quantised model."""
    return dataclasses.replace(case, name=f"{case.name}_bytes", in_bytes=True)


def is_rounded(found: Array, exact: Array, tolerance: float) -> Array:
    """Where outputs of a case in bytes are the step that is next to a value as near to the exact one as is allowed.

    `tolerance` is a part of the largest value: what lies in the middle of two steps may become either.
    """
    allowed = _STEP / 2 + tolerance * float(np.abs(exact).max())
    is_near = np.abs(found - np.clip(exact, *_LIMITS)) <= allowed
    return np.asarray(is_near & (np.rint(found / _STEP) * _STEP == found))


def shape_text(shape: Shape) -> str:
    """A shape as it stands in a name: 1x64x56x56."""
    return "x".join(map(str, shape))
