"""The tensors of a plan as people see them: origin, storage, and which steps write and read them."""

import dataclasses

from runtime.graph import Graph
from runtime.layout.storage import TensorStorage, of_graph_axes, rows_in_blocks
from runtime.lowering.builder import Builder
from runtime.lowering.launch import LaunchPacking
from runtime.lowering.value import Value
from runtime.plan.plan import ContentKind, StoredTensor
from runtime.semantics.quantization import Quantization
from runtime.types import Origin, OriginFormat, Role

_Key = tuple[str, TensorStorage, int, int]
_KINDS = {Role.INPUT: ContentKind.INPUT, Role.OUTPUT: ContentKind.OUTPUT}


def stored_tensors(builder: Builder) -> tuple[StoredTensor, ...]:
    """Every tensor in every storage that the launches of a builder use, in order of first use; inputs come first."""
    contents = _Contents(builder)
    for value in (*builder.inputs, *builder.outputs):
        contents.enter(value)
    for step, launch in enumerate(builder.launches):
        packed = {one.argument: one for one in launch.packed}
        for (argument, _), (value, _) in zip(launch.kernel.tensors, launch.tensors, strict=True):
            contents.enter(value, step, value is launch.output, packed.get(argument))
    return tuple(sorted(contents.found.values(), key=lambda tensor: _first_use(tensor, len(builder.launches))))


class _Contents:
    """Tensors by what makes them one: name, storage, and place in the memory of their root."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self.found: dict[_Key, StoredTensor] = {}

    def enter(
        self, value: Value, step: int | None = None, is_written: bool = False, packed: LaunchPacking | None = None
    ) -> None:
        """Notes a value, the tensor that it is a part of, and the step that writes or reads it."""
        storage, root = _storage(self._builder.graph, value, packed), value.root
        is_part = root.name != value.name or root.stored != value.stored
        if is_part:
            self.enter(root, step, is_written)
        key = (value.name, storage, id(root), value.root_offset)
        known = self.found.get(key) or StoredTensor(
            *(value.name, self._kind(value), storage, value.element, self._memory(storage)),
            part_of=root.name if is_part else "",
            quantization=_quantization(self._builder.graph, value.name),
        )
        used = (step,) if step is not None else ()
        self.found[key] = dataclasses.replace(
            known,
            written_by=_with(known.written_by, used if is_written else ()),
            read_by=_with(known.read_by, () if is_written else used),
        )

    def _kind(self, value: Value) -> ContentKind:
        if value.data is not None:
            return ContentKind.WEIGHTS
        if value.role in _KINDS:
            return _KINDS[value.role]
        return ContentKind.ACTIVATION if value.name in self._builder.graph.tensors else ContentKind.SCRATCH

    def _memory(self, storage: TensorStorage) -> str:
        if storage.format.is_image:
            return "image"
        return "cpu" if self._builder.target.memory == "cpu" else "buffer"


def _first_use(tensor: StoredTensor, end: int) -> int:
    """The first step that uses a tensor; an output that is another tensor's memory comes at the end."""
    return -1 if tensor.kind == ContentKind.INPUT else min((*tensor.written_by, *tensor.read_by), default=end)


def _with(steps: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*steps, *more)))


def _quantization(graph: Graph, tensor: str) -> Quantization | None:
    """What a tensor's elements stand for; the axis is one of the origin's."""
    info, known = graph.tensors.get(tensor), graph.origins.get(tensor)
    found = info.quantization if info else None
    if found is None or found.axis is None or known is None or OriginFormat.ND in (known.order, known.origin.format):
        return found
    return found.at(known.origin.format.index(known.order[found.axis]))


def _storage(graph: Graph, value: Value, packed: LaunchPacking | None) -> TensorStorage:
    """A value's storage by the origin of its tensor: the value itself has the axes in the graph's order."""
    if packed:
        shape = (packed.groups, packed.rows, packed.cols)
        return TensorStorage(Origin(OriginFormat.ND, shape), rows_in_blocks(packed.block))
    known = graph.origins.get(value.name)
    if known is None or graph.shape(value.name) != value.shape:
        return value.stored
    return TensorStorage(known.origin, of_graph_axes(value.format, known.origin.format, known.order))
