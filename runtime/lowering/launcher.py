"""Launches kernels and CPU operators on values, converts values, and makes constants; a builder adds the tensors."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from runtime.errors import UnsupportedError
from runtime.graph import Array, fill
from runtime.kernels import table
from runtime.kernels.blocked import QUANTIZED_REORDER, REORDER
from runtime.kernels.codes import BYTES_FOUND, INPUT_IN_BYTES, OUTPUT_IN_BYTES, Order
from runtime.kernels.source import source_hash
from runtime.kernels.spec import CPU_BLOCK, ArgumentForm, Kernel, MemoryType, Variant
from runtime.kernels.strided import LOOPS, strides_of, type_of
from runtime.layout.blocked import to_blocked
from runtime.layout.buffer import pack_rows, packed_rows
from runtime.layout.image import LANES, ImageLayout, image_size, to_image
from runtime.layout.integer_rows import IntegerRows, integer_rows
from runtime.lowering.choice import NodeChoice, Place
from runtime.lowering.iteration import loop_nest, padded
from runtime.lowering.launch import Launch, LaunchPacking, Rows
from runtime.lowering.options import Options
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.plan.plan_data import ConstantSpool, PackedConstant
from runtime.plan.records import StepKind
from runtime.semantics.functions import ElementFunction
from runtime.semantics.unary import Unary
from runtime.target import Target
from runtime.types import ELEMENT_NAMES, ElementType, Precision, Storage

WEIGHT_SLACK = 64  # zeros behind every constant, so that a vector load at its end stays inside
COPY_RANK, NEST_RANK = 6, 4
HALF_WEIGHTS = {"WEIGHT_BITS": 16}  # the option of a CPU operator that reads weights in half
_LARGEST_HALF = float(np.finfo(np.float16).max)
_EVERYTHING = {"alpha": -math.inf, "beta": math.inf}  # what a clamp lets pass
_ORDERS = {Storage.FLAT: Order.NCHW, Storage.NHWC: Order.NHWC, Storage.BLOCKED: Order.BLOCKED}


class Launcher:
    """Collects launches in order, in the precision of `target`, which nodes may be chosen to have another of."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target = target
        self.options = options
        self.launches: list[Launch] = []
        self.chosen: NodeChoice | None = None  # for the node that is being lowered
        self.note = ""  # why the node that is being lowered runs elsewhere than wanted
        self.block = options.cpu.block or target.cpu_block
        self._zeros: dict[ElementType, Value] = {}
        self._targets = {target.precision: target}
        self._spool = ConstantSpool()

    @contextlib.contextmanager
    def in_precision(self, precision: Precision | None) -> Iterator[None]:
        """What is launched meanwhile has this precision; None: that of now."""
        before = self.target
        if precision is not None and precision not in self._targets:
            self._targets[precision] = dataclasses.replace(before, precision=precision)
        self.target = before if precision is None else self._targets[precision]
        try:
            yield
        finally:
            self.target = before

    def in_element(self, element: ElementType) -> contextlib.AbstractContextManager[None]:
        """Floats that are read or written meanwhile have this element type; any but float and half changes nothing."""
        precisions = {ElementType.F32: Precision.FP32, ElementType.F16: Precision.FP16_STORAGE}
        return self.in_precision(None if element == self.element else precisions.get(element))

    @property
    def element(self) -> ElementType:
        """Type of activations and, where they have no narrower one, weights in memory."""
        return self.target.element

    def constant(self, name: str, data: Array, element: ElementType | None = None) -> Value:
        """Returns a constant, row-major with WEIGHT_SLACK zeros behind it; by default in the plan's element type."""
        element = self.element if element is None else element
        with self._spool.made((data.size + WEIGHT_SLACK,), ELEMENT_NAMES[element]) as flat:
            fill(flat[: data.size].reshape(data.shape), data)
        return Value(name, tuple(data.shape), Storage.FLAT, element, data=flat)

    def constant_rows(self, name: str, weights: Array, block: int, element: ElementType | None = None) -> Value:
        """Weights [groups, rows, cols] in `packed_rows`, as a constant."""
        value = self.constant(name, packed_rows(block).view(weights), element)
        return dataclasses.replace(value, shape=(math.prod(value.shape),))

    def constant_later(
        self, name: str, view: Array, shape: tuple[int, ...], element: ElementType | None = None
    ) -> Value:
        """The same of what is a view of the graph's constant, which a large one is made of when it is written."""
        element = self.element if element is None else element
        if self._spool.is_in_memory(view.nbytes):
            return dataclasses.replace(self.constant(name, view, element), shape=shape)
        data = PackedConstant(view, ELEMENT_NAMES[element], WEIGHT_SLACK)
        return Value(name, shape, Storage.FLAT, element, data=data)

    def holds_in_half(self, weights: Array) -> bool:
        """Whether weights that an operator of the CPU reads in half too are to lie so: none is beyond half's range."""
        return self.target.has_half_weights and float(np.abs(weights).max(initial=0)) <= _LARGEST_HALF

    def half_options(self) -> dict[str, int]:
        """The options of a CPU's product whose weights lie in half."""
        return HALF_WEIGHTS | ({"HALF_SUMS": 1} if self.target.precision.computes_in_half else {})

    def _packed_rows(self, rows: Rows, block: int, element: ElementType) -> Value:
        view = packed_rows(block).view(rows.weights)
        if np.may_share_memory(view, rows.weights):
            return self.constant_later(rows.name, view, (view.size,), element)
        return self.constant_rows(rows.name, rows.weights, block, element)

    def constant_bytes(self, name: str, data: Array) -> Value:
        """A constant of whole numbers in signed eight bits, row-major, with WEIGHT_SLACK zeros behind it."""
        flat = np.concatenate([data.astype(np.int8).reshape(-1), np.zeros(WEIGHT_SLACK, np.int8)])
        return Value(name, tuple(data.shape), Storage.FLAT, ElementType.I8, data=flat)

    def constant_words(self, name: str, data: Array) -> Value:
        """A one-dimensional constant of int32, with WEIGHT_SLACK zeros behind it."""
        return self.table(name, np.concatenate([data, np.zeros(WEIGHT_SLACK, np.int32)]))

    def bytes(self, name: str, data: Array) -> Value:
        """Integers of eight bits as they are."""
        return Value(name, data.shape, Storage.FLAT, ElementType.I8, data=data)

    def constant_image(self, name: str, data: Array, layout: ImageLayout) -> Value:
        """Weights as an image in the plan's element type."""
        return self._image(name, data, layout, self.element)

    def constant_image_bytes(self, name: str, data: Array, layout: ImageLayout) -> Value:
        """Whole numbers in signed eight bits as an image."""
        return self._image(name, data, layout, ElementType.I8)

    def _image(self, name: str, data: Array, layout: ImageLayout, element: ElementType) -> Value:
        width, height = image_size(layout, data.shape)
        with self._spool.made((height, width, LANES), ELEMENT_NAMES[element]) as pixels:
            to_image(data, layout, pixels)
        return Value(name, tuple(data.shape), Storage.IMAGE, element, data=pixels, layout=layout)

    def constant_blocked(self, name: str, data: Array) -> Value:
        """A constant (n, c, h, w) in blocks of channels, zeros behind the last."""
        value = self.constant(name, to_blocked(data, self.block))
        return Value(name, tuple(data.shape), Storage.BLOCKED, self.element, data=value.data, block=self.block)

    def table(self, name: str, indices: Array) -> Value:
        """Indices in int32, whatever the plan's element type."""
        return Value(name, tuple(indices.shape), Storage.FLAT, ElementType.I32, data=indices.astype(np.int32))

    def zeros(self, size: int) -> Value:
        """Returns a constant of at least `size` zeros, which all launches share."""
        known = self._zeros.get(self.element)
        if known is None or math.prod(known.shape) < size:
            known = self._zeros[self.element] = self.constant("zeros", np.zeros(max(size, 4096), np.float32))
        return known

    def scratch(self, name: str, size: int) -> Value:
        """Working memory of `size` elements."""
        return Value(name, (size,), Storage.FLAT, self.element)

    def scratch_image(self, name: str, shape: tuple[int, ...], layout: ImageLayout) -> Value:
        """Working memory as an image."""
        return Value(name, shape, Storage.IMAGE, self.element, layout=layout)

    @property
    def has_cpu(self) -> bool:
        """Whether the target runs steps on its CPU."""
        return self.target.memory == "cpu" or self.target.allow_cpu

    @property
    def on_cpu(self) -> bool:
        """Whether the node that is being lowered is to run on the CPU."""
        return self.target.memory == "cpu" or (self.chosen is not None and self.chosen.place == Place.CPU)

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
        integers = _integers(kernel, tensors)
        in_words = integers is not None and integers.in_words(dims["in_c"])
        kind, variant, reason = self._place(kernel, name, op, dims, in_words)
        if kind == StepKind.CPU and self.target.memory != "cpu" and (defines or {}).get("BYTES"):
            raise UnsupportedError(f"'{name}' ({op}): {reason}, and no CPU operator reads such bytes", kernel.name)
        integers = integers if in_words or kind == StepKind.CPU else None
        values: list[tuple[Value, ArgumentForm]] = []
        packed, chosen = list[LaunchPacking](), dict(defines or {})
        for argument, form in kernel.tensors:
            given = tensors[argument]
            if isinstance(given, Rows):
                given, options, packing = self._weights(kernel, kind, variant, argument, given, integers)
                chosen |= options
                packed += packing
            values.append((given, form))
        key = self._tuning_key(kernel, chosen, dims) if kind == StepKind.OPENCL and kernel.tunable else ""
        numbers = tuple(float((floats or {})[argument]) for argument in kernel.floats)
        ordered = {argument: int(dims[argument]) for argument in kernel.ints}
        arguments = (
            tuple(values),
            tuple(packed),
            kernel.macs(ordered) * (1 + chosen.get("GATED", 0)),  # of two layers
            shown or ProfileInfo(),
            note or reason or self.note,
            key,
            self.target.precision,
        )
        self.launches.append(Launch(name, op, kernel, kind, variant, chosen, ordered, numbers, *arguments))

    def _weights(
        self, kernel: Kernel, kind: StepKind, variant: Variant, argument: str, rows: Rows, integers: IntegerRows | None
    ) -> tuple[Value, Mapping[str, int], list[LaunchPacking]]:
        """Weights as a launch reads them, options that say how they lie, and how another variant would pack them."""
        block = kernel.block(variant) if kernel.block else 1
        options = {"WEIGHT_BITS": integers.bits, "WEIGHT_GROUP": integers.group} if integers else {}
        if integers and kind == StepKind.CPU:
            return self.bytes(rows.name, integers.packed(block)), options, []
        if kind == StepKind.CPU and kernel.integer_weights and self.holds_in_half(rows.weights):
            return self._packed_rows(rows, block, ElementType.F16), self.half_options(), []
        weights = integers.words() if integers else rows.weights
        groups, rows_of_each, cols = weights.shape
        packing = [LaunchPacking(argument, groups, rows_of_each, cols, block)]
        if integers:
            return self.constant_words(rows.name, pack_rows(weights, block)), options, packing
        return self._packed_rows(rows, block, self.element), options, packing

    def launch_strided(
        self,
        operator: str,
        name: str,
        op: str,
        values: Sequence[Value],
        head: Mapping[str, int],
        extents: Sequence[int],
        strides: Sequence[Sequence[int]],
        floats: Mapping[str, float] | None = None,
    ) -> None:
        """Appends a step of one of farmrt's strided CPU operators (kernels/strided.py): its tensors in the order of its
        row, with the strides of each; UnsupportedError where there is no CPU to run it."""
        if not self.has_cpu:
            raise UnsupportedError(f"'{name}' ({op}): has no kernel for a GPU; set runtime: cpu+gpu")
        if self.chosen and not self.on_cpu:
            raise UnsupportedError(f"'{name}' ({op}): has no kernel for a GPU, where it was chosen to run")
        kernel = table.find_kernel(operator, MemoryType.BUFFER)
        tensors = tuple((value, form) for value, (_, form) in zip(values, kernel.tensors, strict=True))
        dims = {**head, **{f"d{loop}": extent for loop, extent in enumerate(extents)}}
        for (tensor, _), value, steps in zip(kernel.tensors, values, strides, strict=True):
            dims |= {type_of(tensor): value.element, **dict(zip(strides_of(tensor), steps, strict=True))}
        ordered = {argument: int(dims[argument]) for argument in kernel.ints}
        shown = ProfileInfo(values[-1].shape)
        note = "" if self.target.memory == "cpu" else "CPU: no kernel for a GPU"
        numbers = tuple(float((floats or {})[argument]) for argument in kernel.floats)
        precision, variant = self.target.precision, Variant()
        told = (tensors, (), 0, shown, note, "", precision)
        self.launches.append(Launch(name, op, kernel, StepKind.CPU, variant, {}, ordered, numbers, *told))

    def cast(self, name: str, op: str, source: Value, value: Value) -> None:
        """Copies all elements, which are row-major on both sides, into another element type."""
        extents = padded([math.prod(value.shape)], LOOPS, 1)
        strides, numbers = padded([1], LOOPS, 0), {"alpha": 0.0, "beta": 0.0}
        function = {"function": ElementFunction.CAST}
        self.launch_strided("elements1", name, op, [source, value], function, extents, [strides, strides], numbers)

    def convert(self, name: str, source: Value, value: Value, note: str) -> None:
        """Copies all elements between two storages of one shape, element types, or both.

        What is launched depends on these alone, not on the node that asks for it.
        """
        chosen, self.chosen = self.chosen, None
        has_half = ElementType.F16 in (source.element, value.element)
        with self.in_precision(Precision.FP16_STORAGE if has_half else Precision.FP32):
            self._convert(name, source, value, note)
        self.chosen = chosen

    def _convert(self, name: str, source: Value, value: Value, note: str) -> None:
        if source.storage == value.storage == Storage.IMAGE:
            self._cast_image(name, source, value, note)
        elif Storage.IMAGE in (source.storage, value.storage):
            self._convert_image(name, source, value, note)
        elif Storage.BLOCKED in (source.storage, value.storage):
            self._reorder(name, source, value, note)
        elif source.steps:
            self.look_up(name, "Dequantize", source, value, source.steps.reals(), note)
        elif value.steps:
            self._round(name, source, value, note)
        else:
            self.strided_copy(name, "Transpose", source, value, source.shape, source.strides, value.strides, note=note)

    def _cast_image(self, name: str, source: Value, value: Value, note: str) -> None:
        """Between images of float and half, by the function of each element that changes nothing.

        A kernel reads and writes either; the options make it another launch than one within half, with its own time.
        """
        dims = dict(zip(("batch", "channels", "height", "width"), source.shape, strict=True))
        defines = {"UNARY": int(Unary.CLAMP), "SRC_F32": _is_float(source), "DST_F32": _is_float(value)}
        tensors, shown = {"x": source, "y": value}, ProfileInfo(output_shape=value.shape)
        self.launch("unary", name, "ImageToImage", tensors, dims, _EVERYTHING, defines, shown, note, MemoryType.IMAGE)

    def _reorder(self, name: str, source: Value, value: Value, note: str) -> None:
        """Between blocked and dense NCHW or NHWC; the pixels of a part of a wider tensor are brought together first."""
        if source.storage == Storage.NHWC and source.stride != source.shape[1]:
            dense = Value(source.name, source.shape, Storage.NHWC, source.element, source.shape[1])
            self.convert(f"{name}:dense", source, dense, f"{source.storage.name} -> {dense.storage.name}")
            source = dense
        dims = dict(zip(("batch", "channels", "h", "w"), source.shape, strict=True))
        defines = {"FROM": _ORDERS[source.storage], "TO": _ORDERS[value.storage], "BLOCK": self.block}
        shown = ProfileInfo(output_shape=value.shape)
        tensors, floats, row = {"x": source, "y": value}, dict[str, float](), REORDER
        if steps := value.steps or source.steps:
            if source.is_row_major and value.is_row_major and source.shape[1] % self.block == 0:
                rows, run = source.shape[0], source.size // source.shape[0]  # long runs of neighbours
                as_pixels = {"batch": 1, "channels": 1, "h": rows, "w": run}
                dims = {"batch": rows, "channels": run, "h": 1, "w": 1} if value.steps else as_pixels
                orders = (Order.NHWC, Order.BLOCKED) if value.steps else (Order.NCHW, Order.NCHW)
                defines |= dict(zip(("FROM", "TO"), orders, strict=True))
            in_bytes = OUTPUT_IN_BYTES * (value.steps is not None) | BYTES_FOUND * steps.is_found
            defines |= {"BYTES": in_bytes, "ZERO": steps.zero}
            floats, row = {"step": steps.step}, QUANTIZED_REORDER
        self.launch(row, name, row.operator, tensors, dims, floats, defines, shown, note)

    def _round(self, name: str, source: Value, value: Value, note: str) -> None:
        """Floats to bytes in a GPU's buffers."""
        steps = value.steps
        assert steps is not None
        defines = {"UNARY": int(Unary.FAKE_QUANTIZE), "BYTES": OUTPUT_IN_BYTES}
        numbers = {"alpha": -steps.zero * steps.step, "beta": (255 - steps.zero) * steps.step}
        dims, shown = _nest_dims(source, value), ProfileInfo(output_shape=value.shape)
        self.launch("unary", name, "Quantize", {"x": source, "y": value}, dims, numbers, defines, shown, note)

    def look_up(self, name: str, op: str, source: Value, value: Value, table: Array, note: str = "eight bits") -> None:
        """Writes what a table of 256 has of each byte, in bytes or in floats, in a GPU's buffers."""
        in_bytes = value.element == ElementType.U8
        own = f"{name}:table"
        data = Value(own, (256,), Storage.FLAT, ElementType.U8, data=table) if in_bytes else self.constant(own, table)
        tensors, defines = (
            {"x": source, "table": data, "y": value},
            {"BYTES": INPUT_IN_BYTES + OUTPUT_IN_BYTES * in_bytes},
        )
        dims, shown = _nest_dims(source, value), ProfileInfo(output_shape=value.shape)
        self.launch("lookup", name, op, tensors, dims, None, defines, shown, note)

    def _convert_image(self, name: str, source: Value, value: Value, note: str) -> None:
        to_image_memory = value.storage == Storage.IMAGE
        buffer = source if to_image_memory else value
        dims = dict(zip(("batch", "channels", "height", "width"), buffer.shape, strict=True))
        dims |= dict(zip(("stride_n", "stride_c", "stride_h", "stride_w"), buffer.strides, strict=True))
        kernel, op = ("buffer_to_image", "BufferToImage") if to_image_memory else ("image_to_buffer", "ImageToBuffer")
        defines = {"SRC_F32" if to_image_memory else "DST_F32": _is_float(buffer)}
        image = value if to_image_memory else source
        if image.element == ElementType.F32 and self.element == ElementType.F16:
            defines["IMAGE_F32"] = 1  # for its own time: the kernel reads and writes either image
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
        defines = {"SRC_F32": _is_float(source), "DST_F32": _is_float(value)}
        shown = shown or ProfileInfo(output_shape=value.shape)
        needs_half = self.element == ElementType.F32 and ElementType.F16 in (source.element, value.element)
        with self.in_precision(Precision.FP16_STORAGE if needs_half else None):
            self.launch("copy", name, op, {"x": source, "y": value}, dims, defines=defines, note=note, shown=shown)

    def refusal(self, kernel_name: str, memory: MemoryType, dims: Mapping[str, int]) -> str:
        """Why no variant of a kernel can run for these dims on the target; empty where one can."""
        kernel = table.find_kernel(kernel_name, memory)
        if self.on_cpu:
            return "" if kernel.cpu else f"kernel {kernel.name} has no CPU operator"
        fitting = kernel.default_variant(dims, self.target)
        return "" if fitting else kernel.misfit(dims, kernel.variants[0], self.target)

    def _place(
        self, kernel: Kernel, name: str, op: str, dims: Mapping[str, int], in_integers: bool
    ) -> tuple[StepKind, Variant, str]:
        on_cpu = Variant((("BLOCK", CPU_BLOCK),)) if kernel.block else Variant()
        if self.on_cpu:
            if not kernel.cpu:
                raise UnsupportedError(f"'{name}' ({op}): kernel {kernel.name} has no CPU operator; set runtime: gpu")
            if self.chosen and self.element != ElementType.F32:
                raise UnsupportedError(f"'{name}' ({op}): the CPU computes in fp32 only")
            return StepKind.CPU, on_cpu, self.note or "CPU: chosen" if self.chosen else ""
        variant = kernel.default_variant(dims, self.target, in_integers)
        if variant is not None:
            return StepKind.OPENCL, variant, ""
        reason = kernel.misfit(dims, kernel.variants[0], self.target)
        if self.chosen:
            raise UnsupportedError(f"'{name}' ({op}): {reason}; chosen to run on the GPU", kernel.name)
        if not (self.target.allow_cpu and kernel.cpu and self.element == ElementType.F32):
            text = f"'{name}' ({op}): {reason}; set runtime: cpu+gpu and fp32 for a CPU fallback"
            raise UnsupportedError(text, kernel.name)
        return StepKind.CPU, on_cpu, f"CPU: {reason}"

    def _tuning_key(self, kernel: Kernel, defines: Mapping[str, int], dims: Mapping[str, int]) -> str:
        definitions = ",".join(f"{key}={value}" for key, value in sorted(defines.items()))
        shape = ",".join(f"{key}={dims[key]}" for key in kernel.ints)
        precision = self.target.precision.label
        return "|".join((kernel.name, kernel.memory, precision, source_hash(kernel), definitions, shape))


def _integers(kernel: Kernel, tensors: Mapping[str, Value | Rows]) -> IntegerRows | None:
    """The weights of a launch as integers, where they are and its kernel reads such."""
    rows = (given for given in tensors.values() if isinstance(given, Rows)) if kernel.integer_weights else ()
    return next((found for each in rows if (found := each.integers or integer_rows(each.weights))), None)


def _nest_dims(source: Value, value: Value) -> dict[str, int]:
    """The four loops over all elements of two values of one shape."""
    extents, strides = loop_nest(value.shape, [source.strides, value.strides])
    longest = extents.index(max(extents))  # the innermost, where vectors are
    for order in (extents, *strides):
        order.append(order.pop(longest))
    dims = {f"d{i}": size for i, size in enumerate(padded(extents, NEST_RANK, 1))}
    for prefix, steps in zip(("xs", "ys"), strides, strict=True):
        dims |= {f"{prefix}{i}": step for i, step in enumerate(padded(steps, NEST_RANK, 0))}
    return dims


def _is_float(value: Value) -> int:
    return int(value.element == ElementType.F32)
