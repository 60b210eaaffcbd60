"""The device-independent graph: operators and tensors with their origin format (ONNX semantics, NCHW) and shape.

Operators after import are ONNX's, with these fixed forms, so that every later stage sees one way to say a thing.
Attributes stand after the semicolon; `runtime.operators` gives their types and meaning, shapes and costs:

    Conv(x, w, b?, residual?; strides, pads, dilations, group)     residual is added before the activation
    FullyConnected(x, w, b?, residual?, factor?)    y[..., o] = sum_k x[..., k] w[o, k] + b[o], plus the residual or
                                                    times the factor, before the activation
    MatMul(a, b)                    stacks of matrices, NumPy broadcasting
    BatchNormalization(x, s, t)     y = x * s[c] + t[c] (folded to scale and shift)
    MaxPool(x; kernel, strides, pads), AveragePool(x; kernel, strides, pads, count_include_pad)
    Add Sub Mul Div Max Min Pow     binary, NumPy broadcasting
    Relu Clip(; alpha, beta) Sigmoid Tanh LeakyRelu(; alpha) Elu(; alpha) HardSigmoid(; alpha, beta) HardSwish
    Gelu GeluTanh Swish(; alpha) Mish Selu(; alpha, beta) Celu(; alpha) FakeQuantize(; alpha, beta)
    FakeQuantize16(; alpha, beta)
    Exp Log Sqrt Reciprocal Neg Abs Floor Ceil Erf Identity        unary
    LayerNormalization(x, scale?, shift?; axes, epsilon, centered)   axes: the last ones, or (1,) of an image
    GroupNormalization(x, scale?, shift?; groups, epsilon)           over the channels of a group and all pixels
    Attention(q, k, v, mask?; ...)           see runtime/families/attention/geometry.py
    Rotary(x, cos, sin; ...)                 see runtime/families/rotary/definition.py
    PRelu(x, slope), LRN(x; alpha, beta, bias, size), Softmax(x; axis), LogSoftmax(x; axis), Concat(...; axis)
    Slice(x; starts, ends, axes, steps), Pad(x; pads, value, mode), Transpose(x; perm), Reshape(x; shape)
    Resize(x; mode, coordinate_transformation_mode, nearest_mode, sizes, scales), ChannelShuffle(x; group)
    DepthToSpace SpaceToDepth(x; blocksize, mode)
    ReduceMean ReduceSum ReduceMax ReduceMin(x; axes, keepdims)

    QuantizeLinear DequantizeLinear QLinearConv QLinearMatMul ConvInteger MatMulInteger
                                             families/quantization/rows.py; expanded before all other passes

Global pooling is ReduceMean or ReduceMax over axes (2, 3); the importer's reductions keep their axes. Conv,
FullyConnected, the normalisations and the binary operators may hold a fused activation: `activation` in ACTIVATIONS,
with `alpha` and `beta` where it has parameters (clip: low, high). Absent means none. An absent optional input is the
empty name, and never the last one. Weights of Conv and FullyConnected, scale and shift are constants. Tensors of
other types than float32 are read by the generic operators (runtime/semantics/generic.py), quantised and users' ones.
"""

import contextlib
import dataclasses
from collections.abc import Container, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import DTypeLike

from runtime.semantics import unary
from runtime.semantics.quantization import Quantization
from runtime.types import Origin, OriginFormat

ACTIVATIONS = ("none", "relu", *(code.function.activation for code in unary.ACTIVATIONS))

Array = npt.NDArray[Any]

PART_BYTES = 1 << 20  # of a copy that nobody keeps


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """Shape of a tensor in origin order (NCHW for images), its element type, and what its elements stand for.

    `quantization`: where that is known at conversion; a scale that is computed at run time is not.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = dataclasses.field(default_factory=lambda: np.dtype(np.float32))
    quantization: Quantization | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclasses.dataclass(frozen=True)
class OrderedOrigin:
    """What a tensor is to the model's author, and the order in which the graph has its axes."""

    origin: Origin
    order: OriginFormat


@dataclasses.dataclass(frozen=True)
class MovedTensor:
    """A tensor of the source that a pass brought into another order: axis i is its axis `perm[i]`."""

    tensor: str
    perm: tuple[int, ...]


@dataclasses.dataclass
class Node:
    """One operator. An absent optional input is the empty name, as in ONNX."""

    op: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def output(self) -> str:
        """The only output."""
        (name,) = self.outputs
        return name

    def input(self, index: int) -> str:
        """Name of an input, empty where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""


@dataclasses.dataclass
class Graph:
    """Nodes in topological order; every used tensor has an entry in `tensors`, a constant also in `constants`.

    `moved`: tensors that are one of the source in another order of axes. `origins`: what tensors are to the model's
    author, once a conversion has found it out. `padded`: nodes of the source that write fewer elements than their
    result has room for, and -1 behind them.
    """

    name: str
    inputs: list[str]
    outputs: list[str]
    nodes: list[Node]
    tensors: dict[str, TensorInfo]
    constants: dict[str, Array]
    moved: dict[str, MovedTensor] = dataclasses.field(default_factory=dict)
    origins: dict[str, OrderedOrigin] = dataclasses.field(default_factory=dict)
    padded: list[str] = dataclasses.field(default_factory=list)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor in origin order."""
        return self.tensors[tensor].shape

    def producer(self, tensor: str) -> Node | None:
        """The node that writes a tensor; None for inputs and constants."""
        return next((node for node in self.nodes if tensor in node.outputs), None)

    def consumers(self, tensor: str) -> list[Node]:
        """The nodes that read a tensor, in order."""
        return [node for node in self.nodes if tensor in node.inputs]

    def is_constant(self, tensor: str) -> bool:
        """Whether the tensor's value is known at conversion."""
        return tensor in self.constants

    def add_constant(self, name: str, value: Array) -> str:
        """Adds a constant under a name that is not yet taken, and returns that name."""
        unique = unused_name(name, self.tensors)
        self.constants[unique] = value
        self.tensors[unique] = TensorInfo(tuple(value.shape), value.dtype)
        return unique

    @property
    def layers(self) -> tuple[str, ...]:
        """What each operator writes."""
        return tuple(node.output for node in self.nodes)

    def activations(self) -> Iterator[str]:
        """Names of the tensors that are computed at run time: inputs, then node outputs."""
        yield from self.inputs
        for node in self.nodes:
            yield from (name for name in node.outputs if name)

    def without(self, dropped: Iterable[Node]) -> list[Node]:
        """Returns the nodes except those in `dropped`, which are compared by identity."""
        gone = {id(node) for node in dropped}
        return [node for node in self.nodes if id(node) not in gone]


class UniqueNames:
    """Hands out names, each once, and none of those that are taken before."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._suffixes: dict[str, int] = {}  # of each name, the last: thousands may ask for one

    def take(self, name: str) -> str:
        """The name, with a number behind it where it is taken."""
        unique, suffix = name, self._suffixes.get(name, 0)
        while unique in self._taken:
            suffix += 1
            unique = f"{name}_{suffix}"
        self._suffixes[name] = suffix
        self._taken.add(unique)
        return unique


def in_element_type(array: Array, dtype: DTypeLike) -> Array:
    """An array in another element type; a finite number beyond the range of half becomes its greatest, not infinite.

    So a mask of -3e38 still hides, and times 0 is 0.
    """
    if array.dtype == dtype and array.flags.c_contiguous:
        return array
    converted = np.empty(array.shape, dtype)
    fill(converted, array)
    return converted


def fill(target: Array, source: Array) -> None:
    """Writes the elements of one array into another of the same shape, as `in_element_type` has them."""
    with np.errstate(over="raise"), contextlib.suppress(FloatingPointError):
        np.copyto(target, source, casting="unsafe")
        return
    with np.errstate(over="ignore"):
        np.copyto(target, source, casting="unsafe")
    if target.dtype == np.float16:
        beyond = np.isinf(target) & np.isfinite(source)
        target[beyond] = np.copysign(np.finfo(np.float16).max, source[beyond])


def contiguous_parts(array: Array, dtype: DTypeLike) -> Iterator[Array]:
    """The elements of an array in order, in another element type perhaps.

    What has to be copied comes some rows at a time: the memory of one part is that of the next, and stays in the cache.
    """
    while array.ndim > 1 and len(array) == 1:
        array = array[0]
    if array.ndim == 0 or (array.flags.c_contiguous and array.dtype == dtype):
        yield in_element_type(np.atleast_1d(array), dtype)
        return
    rows = max(PART_BYTES * len(array) // max(array.nbytes, 1), 1)
    for first in range(0, len(array), rows):
        yield in_element_type(array[first : first + rows], dtype)


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it where it is taken."""
    unique, suffix = name, 0
    while unique in taken:
        suffix += 1
        unique = f"{name}_{suffix}"
    return unique
