"""Short forms of what many importers add to a graph: generic operators, constants, shapes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.graph import Array
from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.semantics.generic import row_major_strides
from runtime.semantics.generic_forms import element_form, reduction_form, view_form

DType = np.dtype[Any] | type[np.float32] | str


class Emitter:
    """Adds the operators that one node of the model becomes; every method returns the name of what it adds.

    `output` names the tensor that is written; None is a new intermediate one.
    """

    def __init__(self, node: OnnxNode, builder: GraphBuilder) -> None:
        self.node = node
        self.builder = builder

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.builder.shape(tensor)

    def constant(self, value: Array | float, like: str = "", dtype: DType | None = None) -> str:
        """A constant, of the element type of another tensor or of the given one."""
        kind = self.builder.dtype(like) if like else np.dtype(dtype or np.float32)
        return self.builder.derived(f"{self.node.label}/constant", np.asarray(value).astype(kind))

    def op(self, op: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """An operator of the graph, in its generic form where the element types need that."""
        return self.builder.emit(self.node, op, inputs, attributes, output)

    def element(
        self,
        function: str,
        *inputs: str,
        dtype: DType | None = None,
        output: str | None = None,
        alpha: float = 0.0,
        beta: float = 0.0,
    ) -> str:
        """A function of up to three tensors; the result has the last one's element type where none is given."""
        kind = dtype or self.builder.dtype(inputs[-1])
        form = element_form(function, np.dtype(kind), alpha, beta)
        return self.builder.emit(self.node, "Elementwise", inputs, form, output)

    def cast(self, x: str, dtype: DType, output: str | None = None) -> str:
        """The tensor in another element type; the same one where it has it and needs no other name."""
        if self.builder.dtype(x) == np.dtype(dtype):
            return x if output is None else self.op("Identity", x, output=output)
        return self.element("cast", x, dtype=dtype, output=output)

    def reshape(self, x: str, shape: Sequence[int], output: str | None = None) -> str:
        """The same elements in another shape."""
        return self.op("Reshape", x, output=output, shape=tuple(shape))

    def transpose(self, x: str, perm: Sequence[int], output: str | None = None) -> str:
        """Another order of axes."""
        return self.op("Transpose", x, output=output, perm=tuple(perm))

    def view(
        self, x: str, shape: Sequence[int], strides: Sequence[int], offset: int = 0, output: str | None = None
    ) -> str:
        """A strided view of a tensor."""
        return self.builder.emit(self.node, "Strided", [x], view_form(shape, strides, offset), output)

    def expand(self, x: str, shape: Sequence[int], output: str | None = None) -> str:
        """The tensor repeated along axes of one element."""
        own = self.shape(x)
        missing = len(shape) - len(own)
        strides = (0,) * missing + row_major_strides(own)
        sizes = (1,) * missing + own
        steps = [0 if size == 1 else step for size, step in zip(sizes, strides, strict=True)]
        return self.view(x, shape, steps, output=output)

    def slice(self, x: str, axis: int, start: int, end: int, output: str | None = None) -> str:
        """A range of one axis."""
        attributes = {"starts": (start,), "ends": (end,), "axes": (axis,), "steps": (1,)}
        if (start, end) == (0, self.shape(x)[axis]):
            return self.op("Identity", x, output=output)
        return self.builder.emit(self.node, "Slice", [x], attributes, output)

    def reduce(
        self,
        function: str,
        x: str,
        axes: Sequence[int],
        keepdims: bool = True,
        dtype: DType | None = None,
        output: str | None = None,
    ) -> str:
        """A reduction over whole axes, of any element type."""
        form = reduction_form(self.shape(x), tuple(axes), keepdims, function, np.dtype(dtype or self.builder.dtype(x)))
        return self.builder.emit(self.node, "StridedReduction", [x], form, output)

    def flat(self, x: str) -> str:
        """All elements along one axis."""
        return self.reshape(x, (math.prod(self.shape(x)),))
