"""Small graphs for tests, with shapes inferred and seeded constants."""

import math
from typing import Any

import numpy as np

from runtime.graph import Array, Graph, Node, TensorInfo
from runtime.operators.table import infer_dtype, infer_shape


class GraphMaker:
    """Adds nodes one by one; every method returns the name of the tensor that it made."""

    def __init__(self, name: str = "net", seed: int = 0) -> None:
        self.graph = Graph(name, [], [], [], {}, {})
        self._random = np.random.default_rng(seed)

    def input(self, *shape: int, dtype: str = "float32") -> str:
        name = f"x{len(self.graph.inputs)}"
        self.graph.inputs.append(name)
        self.graph.tensors[name] = TensorInfo(shape, np.dtype(dtype))
        return name

    def weights(self, *shape: int) -> str:
        fan_in = max(1, int(np.prod(shape[1:])))
        values = self._random.standard_normal(shape) / np.sqrt(fan_in)
        return self.graph.add_constant("w", values.astype(np.float32))

    def multiples(self, *shape: int, bits: int, group: int = 0) -> str:
        """Weights that are integers of some bits times a scale: one for each row, or for each group of a row."""
        most, group = 2 ** (bits - 1) - 1, group or math.prod(shape[1:])
        integers = self._random.integers(-most, most + 1, (math.prod(shape) // group, group))
        integers[:, 0] = most
        scales = self._random.uniform(0.5, 1, (len(integers), 1)) / most / np.sqrt(math.prod(shape[1:]))
        values = integers.astype(np.float32) * scales.astype(np.float32)
        return self.graph.add_constant("w", values.reshape(shape))

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        output = f"{op.lower()}{len(self.graph.nodes)}"
        shapes = [self.graph.shape(name) if name else () for name in inputs]
        self.graph.nodes.append(Node(op, f"n_{output}", list(inputs), [output], attrs))
        dtype = infer_dtype(op, [self.graph.tensors[name].dtype for name in inputs if name], attrs)
        self.graph.tensors[output] = TensorInfo(infer_shape(op, shapes, attrs), dtype)
        return output

    def conv(self, x: str, out: int, k: int = 3, residual: str = "", w: str = "", **attrs: Any) -> str:
        group = attrs.pop("group", 1)
        in_c = self.graph.shape(x)[1] // group
        filled = {"strides": (1, 1), "pads": (k // 2,) * 4, "dilations": (1, 1), "group": group} | attrs
        inputs = [x, w or self.weights(out, in_c, k, k), self.weights(out)]
        return self.add("Conv", *inputs, *([residual] if residual else []), **filled)

    def finish(self, *outputs: str) -> Graph:
        self.graph.outputs = list(outputs)
        return self.graph

    def noise(self) -> dict[str, Array]:
        """Seeded values for every input: floats within -1 .. 1, integers within the first hundred, both truths."""
        return {
            name: self._values(self.graph.shape(name), self.graph.tensors[name].dtype) for name in self.graph.inputs
        }

    def _values(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if dtype.kind in "iu":
            return self._random.integers(0, 100, shape).astype(dtype)
        noise = self._random.uniform(-1, 1, shape)
        return noise > 0 if dtype == np.bool_ else noise.astype(dtype)
