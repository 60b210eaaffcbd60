"""The builder that operator families lower through: reads and writes tensors in a storage, and launches kernels."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from runtime.errors import UnsupportedError
from runtime.functions import ElementFunction
from runtime.graph import Array, Graph, Node
from runtime.kernels import table
from runtime.kernels.blocked import REORDER
from runtime.kernels.codes import Order
from runtime.kernels.source import source_hash
from runtime.kernels.spec import ArgumentForm, Kernel, MemoryType, Variant
from runtime.layout.blocked import to_blocked
from runtime.layout.buffer import pack_rows
from runtime.layout.image import ImageLayout, to_image
from runtime.lowering.choice import GraphChoice, NodeChoice, Place
from runtime.lowering.iteration import loop_nest, padded
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.plan.records import StepKind
from runtime.target import Target
from runtime.types import ELEMENT_TYPES, ElementType, Precision, Role, Storage

WEIGHT_SLACK = 64  # zeros behind every constant, so that a vector load at its end stays inside
COPY_RANK = 6
STRIDED_LOOPS = 12  # of farmrt's strided steps (cpu_strided.h)
# Packing of the weights of farmrt's CPU operators on NHWC.
CPU_BLOCK = 16
_ORDERS = {Storage.FLAT: Order.NCHW, Storage.NHWC: Order.NHWC, Storage.BLOCKED: Order.BLOCKED}


@dataclasses.dataclass(frozen=True)
class CpuOptions:
    """What tuning varies of plans for the CPU alone.

    `block`: channels of a block of activations, 8 or 16; 0 for the target's. `winograd`: outputs of the convolutions
    that are Winograd's; None for those that it pays for as a rule.
    """

    block: int = 0
    winograd: frozenset[str] | None = None


CPU_DEFAULT = CpuOptions()


@dataclasses.dataclass(frozen=True)
class Options:
    """What a deployment file asks of the lowering.

    `winograd`: output tile of Winograd's convolution (2 or 4), 0 for none, `auto` for the best of each layer.
    `keep_layers`: every operator's output is an output of the plan too. `reuse_memory`: off for trials, whose
    operators run in any order. `cpu`: how plans for the CPU alone are made. `choice`: where each node runs and how;
    None: where the target's memory type says.
    """

    winograd: int | Literal["auto"] = 0
    obfuscate: bool = False
    keep_layers: bool = False
    reuse_memory: bool = True
    cpu: CpuOptions = CPU_DEFAULT
    choice: GraphChoice | None = None


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A tensor that was brought into another storage (None: into an output of the plan), and the launch that did it."""

    tensor: str
    source: Storage
    storage: Storage | None
    launch: Launch


@dataclasses.dataclass(frozen=True)
class Rows:
    """Weights [groups, rows, cols] that a launch packs in blocks of rows as its variant asks."""

    name: str
    weights: Array


Tensors = dict[str, Value | Rows]


@dataclasses.dataclass(frozen=True)
class Packed:
    """How a launch's weights are packed: the tensor argument that holds them, their shape, and the rows of a block."""

    argument: str
    groups: int
    rows: int
    cols: int
    block: int


@dataclasses.dataclass(frozen=True)
class Launch:
    """A step of a plan whose tensors have no place in memory yet."""

    name: str
    op: str
    kernel: Kernel
    kind: StepKind
    variant: Variant
    defines: Mapping[str, int]
    dims: Mapping[str, int]
    floats: tuple[float, ...]
    tensors: tuple[tuple[Value, ArgumentForm], ...]
    packed: tuple[Packed, ...]
    macs: int
    shown: ProfileInfo
    note: str
    tuning_key: str

    @property
    def output(self) -> Value:
        """The value that the launch writes: its last tensor argument."""
        return self.tensors[-1][0]


class Builder:
    """Collects launches in order and remembers in which storages each tensor of the graph exists.

    The storage that a tensor was written in first is its *home*: what operators decide by a tensor's storage, and every
    conversion, starts from there, so that neither depends on what other readers have asked for before.
    """

    def __init__(self, graph: Graph, target: Target, options: Options) -> None:
        self.graph = graph
        self.target = target
        self.options = options
        self.launches: list[Launch] = []
        self.conversions: list[Conversion] = []
        self.chosen: NodeChoice | None = None  # for the node that is being lowered
        self.note = ""  # why the node that is being lowered runs elsewhere than wanted
        self.element = ElementType.F32 if target.precision == Precision.FP32 else ElementType.F16
        self._values: dict[str, dict[Storage, Value]] = {}
        self._homes: dict[str, Value] = {}
        self._planned: dict[str, tuple[str, int]] = {}
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.block = options.cpu.block or target.cpu_block
        self._zeros: Value | None = None

    # Tensors

    @property
    def dtype(self) -> type[np.floating]:
        """NumPy type of activations and weights in memory."""
        return np.float32 if self.element == ElementType.F32 else np.float16

    def add_input(self, name: str) -> None:
        """Declares an input of the plan: row-major, of the element type that the graph says."""
        shape = self.graph.shape(name)
        value = Value(name, shape, Storage.FLAT, self._outer_element(name), role=Role.INPUT)
        self._enter(name, value)
        self.inputs.append(value)

    def plan_views(self, placed: Mapping[str, tuple[str, int]]) -> None:
        """Makes tensors lie inside a wider one when they are written: name -> (wider tensor, first channel)."""
        self._planned.update(placed)

    def is_part(self, tensor: str) -> bool:
        """Whether the tensor will lie inside a wider one."""
        return tensor in self._planned

    def wide_tensors(self, tensor: str) -> list[str]:
        """The tensors that one will lie inside, the narrowest first."""
        if tensor not in self._planned:
            return []
        wide = self._planned[tensor][0]
        return [wide, *self.wide_tensors(wide)]

    def is_activation(self, tensor: str) -> bool:
        """Whether the tensor is computed at run time (already read, written or an input)."""
        return not self.graph.is_constant(tensor)

    def read(self, tensor: str, storage: Storage) -> Value:
        """Returns a tensor in a storage, in the plan's element type; emits a conversion where there is none yet."""
        existing = self._tensor(tensor)
        value = existing.get(storage)
        if value is not None and value.element == self.element:
            return value
        source = self._homes[tensor]
        if storage == Storage.IMAGE and source.data is not None:
            return self.read_image(tensor, source.shape)
        if storage == Storage.BLOCKED and source.data is not None:
            existing[storage] = self.constant_blocked(tensor, self.graph.constants[tensor])
        else:
            existing[storage] = self._aliased(source, storage) or self._converted(tensor, source, storage)
        return existing[storage]

    def read_image(self, tensor: str, shape: tuple[int, ...]) -> Value:
        """Returns a tensor as an image; a constant is reshaped to `shape` first."""
        if self.is_activation(tensor):
            return self.read(tensor, Storage.IMAGE)
        data = self.graph.constants[tensor].reshape(shape)
        return self.constant_image(tensor, data, ImageLayout.CHANNEL_MAJOR)

    def read_any(self, tensor: str) -> Value:
        """Returns a tensor in whatever buffer storage it has; a constant as row-major weights."""
        home = self.home(tensor)
        if home.storage not in (Storage.IMAGE, Storage.BLOCKED):
            return self.read(tensor, home.storage)
        dense = (storage for storage in self._values[tensor] if storage in (Storage.NHWC, Storage.FLAT))
        return self.read(tensor, next(dense, Storage.NHWC) if home.storage == Storage.BLOCKED else Storage.NHWC)

    def read_elements(self, tensor: str) -> Value:
        """The tensor row-major, in the plan's element type for floats and in its own for all others."""
        if self._is_float(tensor):
            return self.read(tensor, Storage.FLAT)
        if tensor not in self._values:
            data = self.graph.constants[tensor].copy(order="C")
            element = self._outer_element(tensor)
            self._enter(tensor, Value(tensor, data.shape, Storage.FLAT, element, data=data))
        return self._values[tensor][Storage.FLAT]

    def write_elements(self, tensor: str) -> Value:
        """A new row-major value for a tensor of any element type."""
        if self._is_float(tensor):
            return self.write(tensor, Storage.FLAT)
        return self._enter(tensor, Value(tensor, self.graph.shape(tensor), Storage.FLAT, self._outer_element(tensor)))

    def write(self, tensor: str, storage: Storage) -> Value:
        """A new value for a tensor that a launch is about to write."""
        return self._enter(tensor, self._new(tensor, storage))

    def alias(self, tensor: str, value: Value) -> None:
        """Makes a tensor share the memory of a value (of the same elements in the same order, or a part of it)."""
        self._enter(tensor, value)

    def home(self, tensor: str) -> Value:
        """The tensor in the storage that it was written in first."""
        self._tensor(tensor)
        return self._homes[tensor]

    def known(self, tensor: str, storage: Storage) -> Value | None:
        """The tensor in a storage, if it was already read, written, or begun by a part written in place."""
        return self._values.get(tensor, {}).get(storage)

    def scratch(self, name: str, size: int) -> Value:
        """Working memory of `size` elements."""
        return Value(name, (size,), Storage.FLAT, self.element)

    def scratch_image(self, name: str, shape: tuple[int, ...], layout: ImageLayout) -> Value:
        """Working memory as an image."""
        return Value(name, shape, Storage.IMAGE, self.element, layout=layout)

    def constant(self, name: str, data: Array) -> Value:
        """Returns a constant, row-major in the plan's element type, with WEIGHT_SLACK zeros behind it."""
        flat = np.concatenate([data.reshape(-1), np.zeros(WEIGHT_SLACK, data.dtype)]).astype(self.dtype)
        return Value(name, tuple(data.shape), Storage.FLAT, self.element, data=flat)

    def table(self, name: str, indices: Array) -> Value:
        """Indices in int32, whatever the plan's element type."""
        return Value(name, tuple(indices.shape), Storage.FLAT, ElementType.I32, data=indices.astype(np.int32))

    def constant_image(self, name: str, data: Array, layout: ImageLayout) -> Value:
        """Weights as an image in the plan's element type."""
        pixels = np.ascontiguousarray(to_image(data, layout).astype(self.dtype))
        return Value(name, tuple(data.shape), Storage.IMAGE, self.element, data=pixels, layout=layout)

    def constant_blocked(self, name: str, data: Array) -> Value:
        """A constant (n, c, h, w) in blocks of channels, zeros behind the last."""
        value = self.constant(name, to_blocked(data, self.block))
        return Value(name, tuple(data.shape), Storage.BLOCKED, self.element, data=value.data, block=self.block)

    def zeros(self, size: int) -> Value:
        """Returns a constant of at least `size` zeros, which all launches share."""
        if self._zeros is None or math.prod(self._zeros.shape) < size:
            self._zeros = self.constant("zeros", np.zeros(max(size, 4096), np.float32))
        return self._zeros

    def _tensor(self, tensor: str) -> dict[Storage, Value]:
        if tensor not in self._values:
            self._enter(tensor, self.constant(tensor, self.graph.constants[tensor]))
        return self._values[tensor]

    def _enter(self, tensor: str, value: Value) -> Value:
        """Makes a value the home of a tensor."""
        self._values[tensor] = {value.storage: value}
        self._homes[tensor] = value
        return value

    def _new(self, tensor: str, storage: Storage) -> Value:
        shape = self.graph.shape(tensor)
        if storage == Storage.NHWC and tensor in self._planned:
            wide, channel = self._planned[tensor]
            base = self._values.get(wide, {}).get(Storage.NHWC) or self.write(wide, Storage.NHWC)
            return Value(tensor, shape, storage, self.element, base.stride, base, channel)
        if storage == Storage.BLOCKED:
            return self._new_blocked(tensor, shape)
        stride = shape[1] if storage == Storage.NHWC else 0
        return Value(tensor, shape, storage, self.element, stride)

    def _new_blocked(self, tensor: str, shape: tuple[int, ...]) -> Value:
        wide, channel = self._planned.get(tensor, ("", 0))
        if not wide:
            return Value(tensor, shape, Storage.BLOCKED, self.element, block=self.block)
        base = self.known(wide, Storage.BLOCKED) or self.write(wide, Storage.BLOCKED)
        return base.blocks(tensor, shape, channel)

    def _aliased(self, source: Value, storage: Storage) -> Value | None:
        """Returns the same memory in another storage, where the elements lie in the same order; else None."""
        if source.element != self.element or Storage.IMAGE in (source.storage, storage):
            return None
        if Storage.BLOCKED in (source.storage, storage):
            return source.reordered(storage, self.block)
        shape = source.shape
        if storage == Storage.FLAT and source.is_row_major:
            return Value(source.name, shape, storage, source.element, 0, source)
        if storage == Storage.NHWC and (shape[2] * shape[3] == 1 or shape[1] == 1):
            return Value(source.name, shape, storage, source.element, shape[1], source)
        return None

    def _converted(self, tensor: str, source: Value, storage: Storage) -> Value:
        # What a Concat joins leaves its image straight into the wide tensor.
        part = source.storage == Storage.IMAGE and tensor in self._planned
        stride, block = {Storage.NHWC: (source.shape[1], 0), Storage.BLOCKED: (0, self.block)}.get(storage, (0, 0))
        dense = Value(tensor, source.shape, storage, self.element, stride, block=block)
        value = self._new(tensor, storage) if part else dense
        self.convert(f"{tensor}:{storage.name.lower()}", source, value, f"{source.storage.name} -> {storage.name}")
        self.conversions.append(Conversion(tensor, source.storage, storage, self.launches[-1]))
        return value

    def _is_float(self, tensor: str) -> bool:
        return self.graph.tensors[tensor].dtype == np.float32

    def _outer_element(self, tensor: str) -> ElementType:
        """Element type of a tensor outside of the plan's precision: the graph's."""
        return ELEMENT_TYPES[self.graph.tensors[tensor].dtype.name]

    def output(self, tensor: str) -> None:
        """Makes a tensor an output of the plan: row-major, of the element type that the graph says."""
        if not self._is_float(tensor):
            self._output_elements(tensor)
            return
        existing = self._tensor(tensor)
        flat = existing.get(Storage.FLAT)
        if flat is not None and flat.element != ElementType.F32:
            flat = None
        source = self._homes[tensor]
        value = flat or self._aliased(source, Storage.FLAT)
        if (
            value is None
            or value.element != ElementType.F32
            or value.root.role == Role.INPUT
            or value.root.data is not None
        ):
            value = Value(tensor, source.shape, Storage.FLAT, ElementType.F32)
            self.convert(f"{tensor}:output", source, value, f"{source.storage.name} -> output")
            self.conversions.append(Conversion(tensor, source.storage, None, self.launches[-1]))
        existing[Storage.FLAT] = Value(tensor, value.shape, Storage.FLAT, ElementType.F32, 0, value, 0, Role.OUTPUT)
        self.outputs.append(existing[Storage.FLAT])

    def _output_elements(self, tensor: str) -> None:
        """An output of another element type than float32; a copy where it is an input, a constant or a part."""
        value = self.read_elements(tensor)
        root = value.root
        if root.role == Role.INPUT or root.data is not None or value is not root:
            source, value = value, Value(tensor, value.shape, Storage.FLAT, value.element)
            count = math.prod(value.shape)
            ints = [int(ElementFunction.CAST), *padded([count], STRIDED_LOOPS, 1)]
            for part in (source, value):
                ints += [int(part.element), *padded([1], STRIDED_LOOPS, 0)]
            self.launch_strided("elements1", f"{tensor}:output", "Transpose", [source, value], ints, (0.0, 0.0))
            self.conversions.append(Conversion(tensor, source.storage, None, self.launches[-1]))
        output = Value(tensor, value.shape, Storage.FLAT, value.element, 0, value, 0, Role.OUTPUT)
        self._values[tensor] = {Storage.FLAT: output}
        self.outputs.append(output)

    # Launches

    @property
    def has_cpu(self) -> bool:
        """Whether the target runs steps on its CPU."""
        return self.target.memory == "cpu" or self.target.allow_cpu

    @property
    def on_cpu(self) -> bool:
        """Whether the node that is being lowered is to run on the CPU."""
        return self.target.memory == "cpu" or (self.chosen is not None and self.chosen.place == Place.CPU)

    def launch_strided(
        self,
        operator: str,
        name: str,
        op: str,
        values: Sequence[Value],
        ints: Sequence[int],
        floats: Sequence[float] = (),
    ) -> None:
        """Appends a step of one of farmrt's strided CPU operators (cpu_strided.h); UnsupportedError where there is no
        CPU to run it."""
        if not self.has_cpu:
            raise UnsupportedError(f"'{name}' ({op}): has no kernel for a GPU; set runtime: cpu+gpu")
        if self.chosen and not self.on_cpu:
            raise UnsupportedError(f"'{name}' ({op}): has no kernel for a GPU, where it was chosen to run")
        kernel = strided_kernel(operator, len(values))
        tensors = tuple((value, ArgumentForm.FLAT) for value in values)
        dims = {f"i{index}": int(value) for index, value in enumerate(ints)}
        shown = ProfileInfo(values[-1].shape)
        note = "" if self.target.memory == "cpu" else "CPU: no kernel for a GPU"
        numbers = tuple(map(float, floats))
        launch = Launch(name, op, kernel, StepKind.CPU, Variant(), {}, dims, numbers, tensors, (), 0, shown, note, "")
        self.launches.append(launch)

    def convert(self, name: str, source: Value, value: Value, note: str) -> None:
        """Copies all elements between two storages of one shape, wherever the node runs that asks for it."""
        chosen, self.chosen = self.chosen, None
        if Storage.IMAGE in (source.storage, value.storage):
            self._convert_image(name, source, value, note)
        elif Storage.BLOCKED in (source.storage, value.storage):
            self._reorder(name, source, value, note)
        else:
            self.strided_copy(name, "Transpose", source, value, source.shape, source.strides, value.strides, note=note)
        self.chosen = chosen

    def _reorder(self, name: str, source: Value, value: Value, note: str) -> None:
        """Between blocked and dense NCHW or NHWC; the pixels of a part of a wider tensor are brought together first."""
        if source.storage == Storage.NHWC and source.stride != source.shape[1]:
            dense = Value(source.name, source.shape, Storage.NHWC, source.element, source.shape[1])
            self.convert(f"{name}:dense", source, dense, f"{source.storage.name} -> {dense.storage.name}")
            source = dense
        dims = dict(zip(("batch", "channels", "h", "w"), source.shape, strict=True))
        defines = {"FROM": _ORDERS[source.storage], "TO": _ORDERS[value.storage], "BLOCK": self.block}
        shown = ProfileInfo(output_shape=value.shape)
        tensors = {"x": source, "y": value}
        self.launch(REORDER, name, REORDER.operator, tensors, dims, None, defines, shown, note)

    def _convert_image(self, name: str, source: Value, value: Value, note: str) -> None:
        to_image_memory = value.storage == Storage.IMAGE
        buffer = source if to_image_memory else value
        dims = dict(zip(("batch", "channels", "height", "width"), buffer.shape, strict=True))
        dims |= dict(zip(("stride_n", "stride_c", "stride_h", "stride_w"), buffer.strides, strict=True))
        kernel, op = ("buffer_to_image", "BufferToImage") if to_image_memory else ("image_to_buffer", "ImageToBuffer")
        is_float = int(buffer.element == ElementType.F32)
        defines = {"SRC_F32" if to_image_memory else "DST_F32": is_float}
        tensors, shown, memory = {"x": source, "y": value}, ProfileInfo(output_shape=value.shape), MemoryType.IMAGE
        self.launch(kernel, name, op, tensors, dims, None, defines, shown, note, memory)

    def strided_copy(
        self,
        name: str,
        op: str,
        source: Value,
        value: Value,
        shape: Sequence[int],
        source_strides: Sequence[int],
        value_strides: Sequence[int],
        note: str = "",
        shown: ProfileInfo | None = None,
    ) -> None:
        """Copies an array of `shape`, element by element, along given strides."""
        extents, (xs, ys) = loop_nest(shape, [tuple(source_strides), tuple(value_strides)])
        if len(extents) > COPY_RANK:
            raise UnsupportedError(f"'{name}' ({op}): a copy of {len(extents)} axes; {COPY_RANK} are supported")
        dims = {f"d{i}": v for i, v in enumerate(padded(extents, COPY_RANK, 1))}
        dims |= {f"xs{i}": v for i, v in enumerate(padded(xs, COPY_RANK, 0))}
        dims |= {f"ys{i}": v for i, v in enumerate(padded(ys, COPY_RANK, 0))}
        defines = {"SRC_F32": int(source.element == ElementType.F32), "DST_F32": int(value.element == ElementType.F32)}
        shown = shown or ProfileInfo(output_shape=value.shape)
        self.launch("copy", name, op, {"x": source, "y": value}, dims, defines=defines, note=note, shown=shown)

    def launch(
        self,
        kernel: str | Kernel,
        name: str,
        op: str,
        tensors: Mapping[str, Value | Rows],
        dims: Mapping[str, int],
        floats: Mapping[str, float] | None = None,
        defines: Mapping[str, int] | None = None,
        shown: ProfileInfo | None = None,
        note: str = "",
        memory: MemoryType = MemoryType.BUFFER,
    ) -> None:
        """Appends a launch of a kernel: in the default variant that fits, else as a CPU operator where that is allowed.

        `kernel`: one that a user declared, or the name of one of the table, which `memory` belongs to. Raises
        UnsupportedError where neither is possible.
        """
        kernel = table.find_kernel(kernel, memory) if isinstance(kernel, str) else kernel
        kind, variant, reason = self._place(kernel, name, op, dims)
        values: list[tuple[Value, ArgumentForm]] = []
        packed = []
        for argument, form in kernel.tensors:
            given = tensors[argument]
            if isinstance(given, Rows):
                block = kernel.block(variant) if kernel.block else 1
                groups, rows, cols = given.weights.shape
                packed.append(Packed(argument, groups, rows, cols, block))
                given = self.constant(given.name, pack_rows(given.weights, block))
            values.append((given, form))
        chosen = dict(defines or {})
        key = self._tuning_key(kernel, chosen, dims) if kind == StepKind.OPENCL and kernel.tunable else ""
        numbers = tuple(float((floats or {})[argument]) for argument in kernel.floats)
        ordered = {argument: int(dims[argument]) for argument in kernel.ints}
        arguments = (
            tuple(values),
            tuple(packed),
            kernel.macs(ordered),
            shown or ProfileInfo(),
            note or reason or self.note,
            key,
        )
        self.launches.append(Launch(name, op, kernel, kind, variant, chosen, ordered, numbers, *arguments))

    def refusal(self, kernel_name: str, memory: MemoryType, dims: Mapping[str, int]) -> str:
        """Why no variant of a kernel can run for these dims on the target; empty where one can."""
        kernel = table.find_kernel(kernel_name, memory)
        if self.on_cpu:
            return "" if kernel.cpu else f"kernel {kernel.name} has no CPU operator"
        fitting = kernel.default_variant(dims, self.target)
        return "" if fitting else kernel.fits(dims, kernel.variants[0], self.target)

    def _place(self, kernel: Kernel, name: str, op: str, dims: Mapping[str, int]) -> tuple[StepKind, Variant, str]:
        on_cpu = Variant((("BLOCK", CPU_BLOCK),)) if kernel.block else Variant()
        if self.on_cpu:
            if not kernel.cpu:
                raise UnsupportedError(f"'{name}' ({op}): kernel {kernel.name} has no CPU operator; set runtime: gpu")
            if self.chosen and self.element != ElementType.F32:
                raise UnsupportedError(f"'{name}' ({op}): the CPU computes in fp32 only")
            return StepKind.CPU, on_cpu, "CPU: chosen" if self.chosen else ""
        variant = kernel.default_variant(dims, self.target)
        if variant is not None:
            return StepKind.OPENCL, variant, ""
        reason = kernel.fits(dims, kernel.variants[0], self.target)
        if self.chosen:
            raise UnsupportedError(f"'{name}' ({op}): {reason}; chosen to run on the GPU")
        if not (self.target.allow_cpu and kernel.cpu and self.element == ElementType.F32):
            raise UnsupportedError(f"'{name}' ({op}): {reason}; set runtime: cpu+gpu and fp32 for a CPU fallback")
        return StepKind.CPU, on_cpu, f"CPU: {reason}"

    def _tuning_key(self, kernel: Kernel, defines: Mapping[str, int], dims: Mapping[str, int]) -> str:
        definitions = ",".join(f"{key}={value}" for key, value in sorted(defines.items()))
        shape = ",".join(f"{key}={dims[key]}" for key in kernel.ints)
        precision = self.target.precision.name.lower()
        return "|".join((kernel.name, kernel.memory, precision, source_hash(kernel), definitions, shape))


@functools.cache
def strided_kernel(operator: str, tensors: int) -> Kernel:
    """The row of a strided CPU operator, which has no OpenCL kernel."""
    arguments = tuple((f"t{index}", ArgumentForm.FLAT) for index in range(tensors))
    return Kernel(operator, "", operator, MemoryType.BUFFER, arguments, (), lambda dims, variant: (1,))


def node_error(node: Node, text: str) -> UnsupportedError:
    """An error about a node: its name, operator, and what is wrong."""
    return UnsupportedError(f"node '{node.name}' ({node.op}): {text}")
