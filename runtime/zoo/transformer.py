"""Builds the layers of a transformer as ONNX nodes, as PyTorch exports them, with a fixed batch.

Every method returns the name of the tensor that it made. Weights of a layer are drawn so that its outputs have about
the deviation of its inputs; queries and keys get a larger one, so that attention prefers some places and outputs tell
inputs apart.
"""

import math
from collections.abc import Sequence

import numpy as np

from runtime.graph import Array
from runtime.zoo.calibration import Range, uniform
from runtime.zoo.network import INPUT, OUTPUT, Layers
from runtime.zoo.skeleton import Skeleton

SELECTIVE = 1.4  # of queries and keys: scores have about the square of it as their deviation
LOGIT_GAIN = 2.5
UNIT: Range = (-1.0, 1.0)


class Transformer(Layers):
    """A network of sequences under construction; `size` counts places, or pixels of an image's side."""

    opset = 20

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self._draws: dict[str, tuple[Range, float]] = {}  # bounds, and a factor

    def values(self, skeleton: Skeleton, seed: int) -> dict[str, Array]:
        """See Layers."""
        rng = np.random.default_rng(seed)
        return {
            name: uniform(rng, bounds, self.parameters[name]) * np.float32(factor)
            for name, (bounds, factor) in self._draws.items()
        }

    def parameter(self, name: str, shape: tuple[int, ...], bounds: Range = UNIT, factor: float = 1.0) -> str:
        """A tensor of weights: uniform numbers within bounds, times a factor."""
        self.parameters[name], self._draws[name] = shape, (bounds, factor)
        return name

    def constant(self, name: str, value: object) -> str:
        """A tensor that no seed changes: whole numbers as int64, others as float32."""
        array = np.asarray(value)
        self.constants[name] = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        return name

    def op(self, op: str, name: str, *inputs: str, **attributes: float | Sequence[int]) -> str:
        """A node of any operator, and its output."""
        self._node(op, name, *inputs, **attributes)
        return name

    def text(self, vocabulary: int, width: int, places: int) -> str:
        """The embeddings (batch, places, width) of the input, which numbers words of the vocabulary."""
        self.inputs[INPUT], self.integers = (self.batch, places), frozenset((INPUT,))
        return self.op("Gather", "words", self.parameter("words.weight", (vocabulary, width)), INPUT, axis=0)

    def reshape(self, x: str, name: str, *shape: int) -> str:
        """Other axes of the same elements."""
        return self.op("Reshape", name, x, self.constant(f"{name}.shape", shape))

    def slice(self, x: str, name: str, first: int, end: int, axis: int) -> str:
        """A range of an axis."""
        parts = (
            self.constant(f"{name}.{part}", [value])
            for part, value in zip(("first", "end", "axis"), (first, end, axis), strict=True)
        )
        return self.op("Slice", name, x, *parts)

    def linear(
        self, x: str, name: str, rows: int, inputs: int, outputs: int, bias: bool = True, gain: float = 1.0
    ) -> str:
        """The product of rows (batch, rows, inputs) with weights (inputs, outputs), plus a bias."""
        self.macs += rows * inputs * outputs
        weights = self.parameter(f"{name}.weight", (inputs, outputs), factor=gain * math.sqrt(3 / inputs))
        if not bias:
            return self.op("MatMul", name, x, weights)
        shift = self.parameter(f"{name}.bias", (outputs,), factor=0.1)
        return self.op("Add", name, self.op("MatMul", f"{name}/product", x, weights), shift)

    def layer_norm(self, x: str, name: str, width: int, epsilon: float) -> str:
        """Layer normalization over the last axis."""
        scale = self.parameter(f"{name}.weight", (width,), (0.75, 1.25))
        shift = self.parameter(f"{name}.bias", (width,), factor=0.1)
        return self.op("LayerNormalization", name, x, scale, shift, axis=-1, epsilon=epsilon)

    def rms_norm(self, x: str, name: str, width: int) -> str:
        """x / sqrt(mean of x^2 + 1e-5), times a weight, over the last axis."""
        square = self.op("Pow", f"{name}/square", x, self.constant("two", 2.0))
        mean = self.op("ReduceMean", f"{name}/mean", square, self.constant("last", [-1]), keepdims=1)
        root = self.op("Sqrt", f"{name}/root", self.op("Add", f"{name}/shifted", mean, self.constant("epsilon", 1e-5)))
        scaled = self.op("Mul", f"{name}/scaled", x, self.op("Reciprocal", f"{name}/inverse", root))
        return self.op("Mul", name, self.parameter(f"{name}.weight", (width,), (0.75, 1.25)), scaled)

    def split_heads(self, x: str, name: str, heads: int, depth: int) -> str:
        """(batch, heads, places, depth) of (batch, places, heads * depth)."""
        return self.op(
            "Transpose", name, self.reshape(x, f"{name}/split", self.batch, -1, heads, depth), perm=[0, 2, 1, 3]
        )

    def attend(self, parts: Sequence[str], name: str, extents: tuple[int, int, int, int], mask: str = "") -> str:
        """(batch, queries, heads * depth) of queries, keys and values with heads apart; the mask is added to scores.

        `extents` are heads, queries, keys and depth.
        """
        heads, queries, keys, depth = extents
        self.macs += 2 * heads * queries * keys * depth
        transposed = self.op("Transpose", f"{name}/keys", parts[1], perm=[0, 1, 3, 2])
        product = self.op("MatMul", f"{name}/product", parts[0], transposed)
        scores = self.op("Mul", f"{name}/scores", product, self.constant("scale", depth**-0.5))
        scores = self.op("Add", f"{name}/masked", scores, mask) if mask else scores
        values = self.op("MatMul", f"{name}/values", self.op("Softmax", f"{name}/weights", scores, axis=-1), parts[2])
        return self.reshape(
            self.op("Transpose", f"{name}/places", values, perm=[0, 2, 1, 3]), name, self.batch, -1, heads * depth
        )

    def attention(self, x: str, name: str, places: int, heads: int, depth: int) -> str:
        """Attention of all places to all, with its four layers."""
        width = heads * depth
        gains = (("query", SELECTIVE), ("key", SELECTIVE), ("value", 1.0))
        layers = [self.linear(x, f"{name}/{part}", places, width, width, gain=gain) for part, gain in gains]
        q, k, v = (self.split_heads(layer, f"{layer}/heads", heads, depth) for layer in layers)
        joined = self.attend((q, k, v), f"{name}/joined", (heads, places, places, depth))
        return self.linear(joined, f"{name}/output", places, width, width)

    def mlp(self, x: str, name: str, places: int, width: int) -> str:
        """Two layers with an exact GELU between, which is four times as wide."""
        wide = self.op("Gelu", f"{name}/gelu", self.linear(x, f"{name}/wide", places, width, 4 * width))
        return self.linear(wide, f"{name}/narrow", places, 4 * width, width)

    def first_place(self, x: str, name: str) -> str:
        """(batch, width) of (batch, places, width)."""
        return self.op("Gather", name, x, self.constant("first", 0), axis=1)

    def softmax(self, x: str, classes: int) -> None:
        """Ends the network with probabilities (batch, classes)."""
        self.op("Softmax", OUTPUT, x, axis=-1)
        self.outputs = {OUTPUT: (self.batch, classes)} | self.outputs


def head_depth(depth: int, width: float) -> int:
    """Elements of a head, where the channels are multiplied by `width`: a multiple of 8."""
    return max(8, round(depth * width / 8) * 8)
