"""ONNX models of transformers with seeded weights: an encoder block and a vision transformer, in several forms.

`Form` says how normalisation, Gelu and attention stand in the file: as ONNX's operators, as PyTorch writes them out, or
as TensorFlow does.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runtime.graph import Array

Form = Literal["operators", "pytorch", "tensorflow"]
FORMS: tuple[Form, ...] = ("operators", "pytorch", "tensorflow")
OPSETS: dict[Form, int] = {"operators": 20, "pytorch": 14, "tensorflow": 15}


@dataclasses.dataclass(frozen=True)
class Size:
    """Places, width of a place, heads, and the factor by which the two layers between widen."""

    places: int = 17
    width: int = 48
    heads: int = 3
    widening: int = 2


class Writer:
    """Adds nodes one by one; every method returns the name of the tensor that it made."""

    def __init__(self, form: Form, size: Size, seed: int = 3) -> None:
        self.form, self.size = form, size
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self._random = np.random.default_rng(seed)

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], f"{op}_{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        name = f"c{len(self.constants)}"
        self.constants[name] = array.astype(np.int64 if array.dtype.kind in "iu" else np.float32)
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self._random.standard_normal(shape) / math.sqrt(shape[0]))

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weights(inputs, outputs)), self.weights(outputs))

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.asarray(shape, np.int64)))

    def scaled(self, x: str, factor: float) -> str:
        return self.op("Mul", x, self.constant(factor))

    def mean(self, x: str) -> str:
        return self.op("ReduceMean", x, axes=[-1], keepdims=1)

    def layer_norm(self, x: str) -> str:
        scale, shift = self.constant(self._random.uniform(0.5, 1.5, self.size.width)), self.weights(self.size.width)
        if self.form == "operators":
            return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5)
        mean = self.mean(x)
        centred = self.op("Sub", x, mean)
        if self.form == "pytorch":
            variance = self.mean(self.op("Pow", centred, self.constant(2.0)))
            deviation = self.op("Sqrt", self.op("Add", variance, self.constant(1e-5)))
            return self.op("Add", self.op("Mul", self.op("Div", centred, deviation), scale), shift)
        variance = self.mean(self.op("Mul", centred, centred))
        inverse = self.op("Reciprocal", self.op("Sqrt", self.op("Add", variance, self.constant(1e-5))))
        factor = self.op("Mul", inverse, scale)
        rest = self.op("Sub", shift, self.op("Mul", mean, factor))
        return self.op("Add", self.op("Mul", x, factor), rest)

    def gelu(self, x: str) -> str:
        if self.form == "operators":
            return self.op("Gelu", x)
        if self.form == "pytorch":
            gate = self.op("Add", self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2)))), self.constant(1.0))
            return self.scaled(self.op("Mul", x, gate), 0.5)
        cube = self.op("Pow", x, self.constant(3.0))
        inner = self.scaled(self.op("Add", x, self.scaled(cube, 0.044715)), math.sqrt(2 / math.pi))
        gate = self.op("Add", self.constant(1.0), self.op("Tanh", inner))
        return self.op("Mul", self.scaled(x, 0.5), gate)

    def heads(self, x: str) -> tuple[str, str, str]:
        """q and v as [1, heads, places, depth], k as [1, heads, depth, places]."""
        size, depth = self.size, self.size.width // self.size.heads
        if self.form == "pytorch":
            wide = self.reshape(self.linear(x, size.width, 3 * size.width), 1, size.places, 3, size.heads, depth)
            stacked = self.op("Transpose", wide, perm=[2, 0, 3, 1, 4])
            q, k, v = (self.op("Gather", stacked, self.constant(index), axis=0) for index in range(3))
            return q, self.op("Transpose", k, perm=[0, 1, 3, 2]), v
        parts = [self.reshape(self.linear(x, size.width, size.width), 1, size.places, size.heads, depth) for _ in "qkv"]
        q, k, v = (
            self.op("Transpose", part, perm=perm)
            for part, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
        )
        return q, k, v

    def attention(self, x: str, mask: str = "") -> str:
        size, depth = self.size, self.size.width // self.size.heads
        q, k, v = self.heads(x)
        if self.form == "pytorch":
            scores = self.op("Div", self.op("MatMul", q, k), self.constant(math.sqrt(depth)))
        else:
            scores = self.op("MatMul", self.scaled(q, depth**-0.5), k)
        scores = self.op("Add", scores, mask) if mask else scores
        values = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        joined = self.reshape(self.op("Transpose", values, perm=[0, 2, 1, 3]), 1, size.places, size.width)
        return self.linear(joined, size.width, size.width)

    def block(self, x: str, mask: str = "") -> str:
        width, inner = self.size.width, self.size.width * self.size.widening
        x = self.op("Add", x, self.attention(self.layer_norm(x), mask))
        wide = self.gelu(self.linear(self.layer_norm(x), width, inner))
        return self.op("Add", x, self.linear(wide, inner, width))

    def model(self, inputs: dict[str, Sequence[int]], output: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            f"transformer_{self.form}",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSETS[self.form])]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def encoder_block(form: Form, size: Size | None = None, masked: bool = False) -> onnx.ModelProto:
    """An encoder block of [1, places, width]; its mask, where it has one, is an input of [1, 1, 1, places]."""
    size = size or Size()
    writer = Writer(form, size)
    inputs: dict[str, Sequence[int]] = {"x": (1, size.places, size.width)}
    if masked:
        inputs["mask"] = (1, 1, 1, size.places)
    return writer.model(inputs, writer.block("x", "mask" if masked else ""))


def causal_block(form: Form) -> onnx.ModelProto:
    """A block whose places see only what stands before them: its mask is a constant."""
    size = Size()
    writer = Writer(form, size)
    mask = writer.constant(np.where(np.tri(size.places, dtype=bool), 0.0, np.finfo(np.float32).min))
    return writer.model({"x": (1, size.places, size.width)}, writer.block("x", mask))


def vision_transformer(form: Form, blocks: int = 2, size: Size | None = None, patch: int = 4) -> onnx.ModelProto:
    """A network of [1, 3, side, side] in square patches with a class token, which a linear layer reads at the end."""
    size = size or Size()
    side = math.isqrt(size.places - 1)
    writer = Writer(form, size)
    kernel = writer.weights(size.width, 3, patch, patch)
    image = writer.op("Conv", "x", kernel, writer.weights(size.width), strides=[patch, patch])
    places = writer.op("Transpose", writer.reshape(image, 1, size.width, side * side), perm=[0, 2, 1])
    x = writer.op("Concat", writer.weights(1, 1, size.width), places, axis=1)
    x = writer.op("Add", x, writer.weights(1, size.places, size.width))
    for _ in range(blocks):
        x = writer.block(x)
    token = writer.op("Gather", writer.layer_norm(x), writer.constant(0), axis=1)
    return writer.model({"x": (1, 3, side * patch, side * patch)}, writer.linear(token, size.width, 10))
