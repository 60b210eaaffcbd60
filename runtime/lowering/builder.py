"""The builder that operator families lower through: reads and writes tensors in a storage, and launches kernels."""

import math
from collections.abc import Collection, Mapping

import numpy as np

from runtime.errors import UnsupportedError
from runtime.graph import Graph, Node
from runtime.layout.image import ImageLayout
from runtime.lowering.launch import Conversion
from runtime.lowering.launcher import Launcher
from runtime.lowering.options import Options
from runtime.lowering.placement import run_size
from runtime.lowering.value import InBytes, Steps, Value
from runtime.target import Target
from runtime.types import ELEMENT_TYPES, ElementType, Role, Storage

_Form = tuple[Storage, ElementType]
IMAGE_RANK = 4
ROUND_TO_RANGE = "RoundToRange"  # an operator that fusions for a CPU make: bytes of a range that is found as it runs
PIXEL_BYTES = 4  # the fewest of a pixel in bytes on a GPU, which multiplies so many at once


class Builder(Launcher):
    """Collects launches in order, and remembers in which storages and element types each tensor of the graph exists.

    The form that a tensor was written in first is its *home*: what operators decide by a tensor's storage, and every
    conversion, starts from there, so that neither depends on what other readers have asked for before.
    """

    def __init__(self, graph: Graph, target: Target, options: Options) -> None:
        super().__init__(target, options)
        self.graph = graph
        self.conversions: list[Conversion] = []
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self._values: dict[str, dict[_Form, Value]] = {}
        self._homes: dict[str, Value] = {}
        self._planned: dict[str, tuple[str, int]] = {}
        self.byte_choice = InBytes()
        # Tensor -> a wider one, of the same type, that it is a run of where an input is too, and the first element; or
        # begins there and ends behind it.
        self.runs: Mapping[str, tuple[str, int]] = {}
        self.joined: Collection[str] = ()  # outputs of nodes that the step of one behind them computes too

    def add_input(self, name: str) -> None:
        """Declares an input of the plan: row-major, of the element type that the graph says."""
        shape, element = self.graph.shape(name), self._outer_element(name)
        value = Value(name, shape, Storage.FLAT, element, role=Role.INPUT)
        whole, first = self.runs.get(name, ("", 0))
        if whole and self.element_of(whole) == element:
            wider = self.known(whole, Storage.FLAT) or self.write(whole, Storage.FLAT)
            value = Value(name, shape, Storage.FLAT, element, 0, wider, first, Role.INPUT)
        self._enter(name, value)
        self.inputs.append(value)

    def plan_views(self, placed: Mapping[str, tuple[str, int]]) -> None:
        """Makes tensors lie inside a wider one when they are written: name -> (wider tensor, first channel)."""
        self._planned.update(placed)

    def is_part(self, tensor: str) -> bool:
        """Whether the tensor will lie inside a wider one."""
        return tensor in self._planned

    def containers(self, tensor: str) -> list[str]:
        """The tensors that one will lie inside, the narrowest first."""
        if tensor not in self._planned:
            return []
        container = self._planned[tensor][0]
        return [container, *self.containers(container)]

    def is_activation(self, tensor: str) -> bool:
        """Whether the tensor is computed at run time (already read, written or an input)."""
        return not self.graph.is_constant(tensor)

    def element_of(self, tensor: str) -> ElementType:
        """Element type in memory: a tensor's own, of which the precision of now says how float32 is stored."""
        return self.element if self._is_float(tensor) else self._outer_element(tensor)

    def read(self, tensor: str, storage: Storage) -> Value:
        """Returns a tensor in a storage; emits a conversion where there is none so yet."""
        form = (storage, self.element_of(tensor))
        existing = self._tensor(tensor)
        if form in existing:
            return existing[form]
        source = self._homes[tensor]
        if storage == Storage.IMAGE and source.data is not None:
            return self.read_image(tensor, source.shape)
        if storage == Storage.BLOCKED and source.data is not None:
            existing[form] = self.constant_blocked(tensor, self.graph.constants[tensor])
        else:
            existing[form] = self._aliased(source, form) or self._converted(tensor, source, form)
        return existing[form]

    def in_bytes(self, tensor: str) -> bool:
        """Whether a tensor of floats is to be stored in eight bits by what writes it."""
        return tensor in self.byte_choice.tensors

    def result(self, node: Node) -> str:
        """The tensor that a node in eight bits writes: its output, or that of what rounds it."""
        return self.byte_choice.nodes[node.output]

    def read_bytes(self, tensor: str) -> Value:
        """Returns a tensor of floats, which holds whole steps of eight bits, in bytes: on a CPU in blocks.

        Rows of whole blocks are images of one pixel, which lie in memory as the rows do.
        """
        existing, form = self._tensor(tensor), (self._byte_storage(tensor), ElementType.U8)
        if form not in existing:
            source, value = self._homes[tensor], self._new_bytes(tensor)
            if source.shape != value.shape:
                source = Value(source.name, value.shape, Storage.FLAT, source.element, 0, source)
            self.convert(f"{tensor}:bytes", source, value, f"{source.storage.name} -> {form[0].name}, eight bits")
            self.conversions.append(Conversion(tensor, source.storage, *form, self.launches[-1]))
            existing[form] = value
        return existing[form]

    def write_bytes(self, tensor: str) -> Value:
        """A new value in bytes for a tensor that a launch is about to write; that which its parts have begun."""
        form = (self._byte_storage(tensor), ElementType.U8)
        return self._values.get(tensor, {}).get(form) or self._enter(tensor, self._new_bytes(tensor))

    def reads_bytes(self, node: Node) -> bool:
        """Whether a node works on bytes."""
        return node.output in self.byte_choice.nodes

    def _byte_storage(self, tensor: str) -> Storage:
        if self.target.memory == "cpu":
            return Storage.BLOCKED
        return Storage.NHWC if len(self.graph.shape(tensor)) == IMAGE_RANK else Storage.FLAT

    def _new_bytes(self, tensor: str) -> Value:
        container, channel = self._planned.get(tensor, ("", 0))
        if self.in_bytes(container):
            return self.write_bytes(container).channels(tensor, self.graph.shape(tensor), channel)
        shape, steps, storage = self.graph.shape(tensor), self.steps_of(tensor), self._byte_storage(tensor)
        if storage == Storage.NHWC and shape[1] < PIXEL_BYTES:
            whole = (shape[0], PIXEL_BYTES, *shape[2:])
            base = Value(f"{tensor}:whole", whole, storage, ElementType.U8, PIXEL_BYTES, steps=steps)
            return Value(tensor, shape, storage, ElementType.U8, PIXEL_BYTES, base, steps=steps)
        if storage != Storage.BLOCKED:
            return Value(tensor, shape, storage, ElementType.U8, shape[1] * (storage == Storage.NHWC), steps=steps)
        shape = shape if len(shape) == IMAGE_RANK else (math.prod(shape[:-1]), shape[-1], 1, 1)
        return Value(tensor, shape, Storage.BLOCKED, ElementType.U8, block=self.block, steps=steps)

    def steps_of(self, tensor: str) -> Steps:
        """What bytes of a tensor that holds whole steps of eight bits stand for."""
        if self.has_found_steps(tensor):
            return Steps(1.0, 0, is_found=True)
        known = self.graph.tensors[tensor].quantization
        assert known is not None and known.is_whole
        return Steps.of(known)

    def has_found_steps(self, tensor: str) -> bool:
        """Whether a tensor holds steps of eight bits that are found as the model runs."""
        node = self.graph.producer(tensor)
        return node is not None and node.op == ROUND_TO_RANGE

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
        if len(self.graph.shape(tensor)) != IMAGE_RANK:
            return self.read(tensor, Storage.FLAT)
        forms, element = self._values[tensor], self.element_of(tensor)
        dense = (form[0] for form in forms if form[0] in (Storage.NHWC, Storage.FLAT) and form[1] == element)
        return self.read(tensor, next(dense, Storage.NHWC) if home.storage == Storage.BLOCKED else Storage.NHWC)

    def write(self, tensor: str, storage: Storage) -> Value:
        """A new value for a tensor that a launch is about to write."""
        return self._enter(tensor, self._new(tensor, storage))

    def alias(self, tensor: str, value: Value) -> None:
        """Makes a tensor share the memory of a value (of the same elements in the same order, or a part of it)."""
        self._enter(tensor, value)

    def home(self, tensor: str) -> Value:
        """The tensor in the form that it was written in first; a constant as it is stored now."""
        self._tensor(tensor)
        return self._homes[tensor]

    def known(self, tensor: str, storage: Storage) -> Value | None:
        """The tensor in a storage, if it was read or written so, or begun by a part that was written in place."""
        return self._values.get(tensor, {}).get((storage, self.element_of(tensor)))

    def _tensor(self, tensor: str) -> dict[_Form, Value]:
        if self.graph.is_constant(tensor):
            self._enter_constant(tensor)
        return self._values[tensor]

    def _enter_constant(self, tensor: str) -> None:
        """Makes a constant exist as it is stored now: it is packed so, never converted."""
        known = self._values.setdefault(tensor, {})
        form = (Storage.FLAT, self.element_of(tensor))
        if form not in known:
            data = self.graph.constants[tensor]
            if self._is_float(tensor):
                known[form] = self.constant_later(tensor, data, data.shape)
            else:
                known[form] = Value(tensor, data.shape, *form, data=data.copy(order="C"))
        self._homes[tensor] = known[form]

    def _enter(self, tensor: str, value: Value) -> Value:
        """Makes a value the home of a tensor."""
        self._values[tensor] = {(value.storage, value.element): value}
        self._homes[tensor] = value
        return value

    def _new(self, tensor: str, storage: Storage) -> Value:
        shape = self.graph.shape(tensor)
        if storage == Storage.NHWC and tensor in self._planned:
            container, channel = self._planned[tensor]
            base = self.known(container, Storage.NHWC) or self.write(container, Storage.NHWC)
            return Value(tensor, shape, storage, base.element, base.stride, base, channel)
        if storage == Storage.BLOCKED:
            return self._new_blocked(tensor, shape)
        element, (whole, first) = self.element_of(tensor), self.runs.get(tensor, ("", 0))
        room = run_size(self.graph, tensor, self.runs)
        if storage == Storage.FLAT and room > math.prod(shape):
            behind = Value(f"{tensor}:run", (room,), storage, element)
            return Value(tensor, shape, storage, element, 0, behind)
        wider = self.known(whole, storage) if whole and storage == Storage.FLAT else None
        if wider and wider.element == element:
            return Value(tensor, shape, storage, element, 0, wider, first)
        return Value(tensor, shape, storage, element, shape[1] if storage == Storage.NHWC else 0)

    def _new_blocked(self, tensor: str, shape: tuple[int, ...]) -> Value:
        container, channel = self._planned.get(tensor, ("", 0))
        if not container:
            return Value(tensor, shape, Storage.BLOCKED, self.element_of(tensor), block=self.block)
        base = self.known(container, Storage.BLOCKED) or self.write(container, Storage.BLOCKED)
        return base.blocks(tensor, shape, channel)

    def _aliased(self, source: Value, form: _Form) -> Value | None:
        """Returns the same memory in another storage, where the elements lie in the same order; else None."""
        storage, element = form
        if source.element != element or Storage.IMAGE in (source.storage, storage):
            return None
        if Storage.BLOCKED in (source.storage, storage):
            return source.reordered(storage, self.block)
        shape = source.shape
        if storage == Storage.FLAT and source.is_row_major:
            return Value(source.name, shape, storage, source.element, 0, source)
        if storage == Storage.NHWC and (shape[2] * shape[3] == 1 or shape[1] == 1):
            return Value(source.name, shape, storage, source.element, shape[1], source)
        return None

    def _converted(self, tensor: str, source: Value, form: _Form) -> Value:
        storage, element = form
        # What a Concat joins leaves its image straight into the wide tensor, which is of the same element type.
        part = source.storage == Storage.IMAGE and tensor in self._planned and source.element == element
        stride = source.shape[1] if storage == Storage.NHWC else 0
        block = self.block if storage == Storage.BLOCKED else 0
        dense = Value(tensor, self.graph.shape(tensor), storage, element, stride, block=block)
        value = self._new(tensor, storage) if part else dense
        cast = "" if source.element == element else f", {'half' if element == ElementType.F16 else 'float'}"
        note = f"{source.storage.name} -> {storage.name}{cast}"
        self.convert(f"{tensor}:{storage.name.lower()}", source, value, note)
        self.conversions.append(Conversion(tensor, source.storage, storage, element, self.launches[-1]))
        return value

    def _is_float(self, tensor: str) -> bool:
        return self.graph.tensors[tensor].dtype == np.float32

    def _outer_element(self, tensor: str) -> ElementType:
        """Element type of a tensor whatever the precision: the graph's."""
        return ELEMENT_TYPES[self.graph.tensors[tensor].dtype.name]

    def output(self, tensor: str) -> None:
        """Makes a tensor an output of the plan: row-major, of the element type that the graph says."""
        if not self._is_float(tensor):
            self._output_elements(tensor)
            return
        existing, form = self._tensor(tensor), (Storage.FLAT, ElementType.F32)
        source = self._homes[tensor]
        value = existing.get(form) or self._aliased(source, form)
        if value is None or self._is_given(value):
            value = Value(tensor, self.graph.shape(tensor), Storage.FLAT, ElementType.F32)
            self.convert(f"{tensor}:output", source, value, f"{source.storage.name} -> output")
            self.conversions.append(Conversion(tensor, source.storage, None, ElementType.F32, self.launches[-1]))
        existing[form] = Value(tensor, value.shape, Storage.FLAT, ElementType.F32, 0, value, 0, Role.OUTPUT)
        self.outputs.append(existing[form])

    def _is_given(self, value: Value) -> bool:
        """Whether a dense value is a constant, or has memory of an input: that cannot be an output's, too."""
        start, root = value.root_offset, value.root
        inputs = [each for each in self.inputs if each.root is root]
        shared = any(start < each.root_offset + each.size and each.root_offset < start + value.size for each in inputs)
        return shared or root.data is not None

    def _output_elements(self, tensor: str) -> None:
        """An output of another element type than float32; a copy where it is an input, a constant or a part."""
        value = self.read(tensor, Storage.FLAT)
        if self._is_given(value) or value is not value.root:
            source, value = value, Value(tensor, value.shape, Storage.FLAT, value.element)
            self.cast(f"{tensor}:output", "Transpose", source, value)
            self.conversions.append(Conversion(tensor, source.storage, None, value.element, self.launches[-1]))
        output = Value(tensor, value.shape, Storage.FLAT, value.element, 0, value, 0, Role.OUTPUT)
        self._values[tensor] = {(Storage.FLAT, output.element): output}
        self.outputs.append(output)


def node_error(node: Node, text: str) -> UnsupportedError:
    """An error about a node: its name, operator, and what is wrong."""
    return UnsupportedError(f"node '{node.name}' ({node.op}): {text}")
