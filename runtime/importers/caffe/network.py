"""Which tensor each layer reads and writes, and which layers the outputs need."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.graph import UniqueNames
from runtime.importers.caffe.layers import DATA_LAYERS, TRAINING_LAYERS, CaffeLayer, layers_at_inference
from runtime.importers.caffe.prototxt import NetworkText

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LinkedLayer:
    """A layer with the tensors that it reads and writes."""

    layer: CaffeLayer
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LinkedNetwork:
    """A network without what training alone needs.

    Attributes:
        inputs: the shape of each input; None where the file does not say it.
        outputs: the tensors that were asked for, by default those that no layer reads.
        notes: what was left out.
    """

    layers: tuple[LinkedLayer, ...]
    inputs: Mapping[str, Shape | None]
    outputs: tuple[str, ...]
    notes: tuple[str, ...]

    def needed(self) -> tuple[list[LinkedLayer], list[str]]:
        """The layers that the outputs depend on, and the inputs, both in the file's order."""
        wanted = set(self.outputs)
        layers = []
        for linked in reversed(self.layers):
            if wanted.intersection(linked.outputs):
                wanted.update(linked.inputs)
                layers.append(linked)
        return layers[::-1], [name for name in self.inputs if name in wanted]


def link(network: NetworkText, given: Mapping[str, Shape], outputs: Sequence[str] | None) -> LinkedNetwork:
    """The network with its tensors.

    `given`: shapes of inputs, which replace what the file says; an intermediate blob among them becomes an input.
    `outputs`: names of blobs. ModelError for a blob that no layer writes, or that two do.
    """
    notes: list[str] = []
    layers, inputs = [], _declared_inputs(network)
    for layer in layers_at_inference(network):
        if layer.type in TRAINING_LAYERS:
            notes.append(f"{layer.label}: left out, only training needs it")
        elif layer.type == "Input" or layer.type in DATA_LAYERS:
            inputs |= _inputs_of(layer)
            notes += [f"{layer.label}: its tops are inputs of the model"] if layer.type != "Input" else []
        else:
            layers.append(layer)
    linker = _Linker(layers, inputs, [name for name in given if name not in inputs])
    linker.check_names("input", given)
    linker.check_names("output", outputs or ())
    notes += [
        f"input '{name}': {_text(given[name])} as deployed, not {_text(shape)}"
        for name, shape in inputs.items()
        if shape is not None and given.get(name, shape) != shape
    ]
    found = tuple(linker.current[name] for name in outputs) if outputs else linker.unread()
    return LinkedNetwork(linker.linked, {**inputs, **given}, found, tuple(notes))


def _text(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _declared_inputs(network: NetworkText) -> dict[str, Shape | None]:
    """The inputs of the network's head: `input` with an `input_shape` or four `input_dim` each."""
    head = network.head
    dims, names = list(head.input_dim), list(head.input)
    shapes: list[Shape | None] = [tuple(shape.dim) for shape in head.input_shape]
    if not shapes:
        shapes = [tuple(dims[index : index + 4]) for index in range(0, len(dims), 4)]
    if shapes and len(shapes) != len(names):
        raise ModelError(
            f"{network.path}: {len(shapes)} input_shape (or four input_dim each) for {len(names)} input(s)"
        )
    if not all(name and name.isprintable() for name in names):
        raise ModelError(f"{network.path}: the name of an input is empty or cannot be printed")
    return dict(zip(names, shapes or [None] * len(names), strict=True))


def _inputs_of(layer: CaffeLayer) -> dict[str, Shape | None]:
    """The tops of a layer that reads no blob; one shape counts for all of them."""
    shapes: list[Shape | None] = [tuple(shape.dim) for shape in layer.message.input_param.shape]
    if len(shapes) not in (0, 1, len(layer.tops)):
        raise ModelError(f"{layer}: {len(shapes)} shapes for {len(layer.tops)} tops")
    spread = shapes * len(layer.tops) if len(shapes) == 1 else shapes or [None] * len(layer.tops)
    return dict(zip(layer.tops, spread, strict=True))


class _Linker:
    """Follows the versions of each blob: a layer that writes its own bottom makes the next one.

    `current` maps each blob to the tensor that holds it at the end.
    """

    def __init__(self, layers: Sequence[CaffeLayer], inputs: Sequence[str] | Mapping[str, object], cuts: Sequence[str]):
        self._layers, self._inputs, self._cuts = layers, set(inputs), set(cuts)
        self._last = {top: index for index, layer in enumerate(layers) for top in layer.tops}
        self.current: dict[str, str] = {name: name for name in (*inputs, *cuts)}
        self._names = UniqueNames({*self.current, *self._last})  # a version that is not the last has one of its own
        self.linked = tuple(self._link(index, layer) for index, layer in enumerate(layers))

    def check_names(self, kind: str, names: Sequence[str] | Mapping[str, object]) -> None:
        """Refuses a name that is no blob, with the nearest one."""
        for name in names:
            if name not in self._last and name not in self._inputs:
                raise ModelError(f"{kind} tensor {name!r} is not in the network{self._hint(name)}")

    def unread(self) -> tuple[str, ...]:
        """The tensors that no layer reads, in the file's order."""
        read = {name for linked in self.linked for name in linked.inputs}
        return tuple(name for linked in self.linked for name in linked.outputs if name not in read)

    def _link(self, index: int, layer: CaffeLayer) -> LinkedLayer:
        inputs = tuple(self._read(layer, bottom) for bottom in layer.bottoms)
        if len(set(layer.tops)) < len(layer.tops):
            raise ModelError(f"{layer}: it writes one top twice")
        return LinkedLayer(layer, inputs, tuple(self._written(index, layer, top) for top in layer.tops))

    def _read(self, layer: CaffeLayer, bottom: str) -> str:
        if bottom in self.current:
            return self.current[bottom]
        if bottom in self._last:
            writer = self._layers[self._last[bottom]].label
            raise ModelError(f"{layer}: reads '{bottom}', which only {writer} below writes: out of order, or a circle")
        raise ModelError(f"{layer}: reads '{bottom}', which no layer writes{self._hint(bottom)}")

    def _written(self, index: int, layer: CaffeLayer, top: str) -> str:
        if top in self.current and top not in layer.bottoms and top not in self._cuts:
            raise ModelError(f"{layer}: writes '{top}', which was written before")
        is_final = self._last[top] == index and top not in self._inputs and top not in self._cuts
        tensor = top if is_final else self._names.take(f"{top}/{layer.name}")
        if top not in self._cuts:
            self.current[top] = tensor
        return tensor

    def _hint(self, name: str) -> str:
        writers = [layer for layer in self._layers if layer.name == name and layer.tops]
        if writers:
            return f"; {writers[0].label} writes {', '.join(map(repr, writers[0].tops))}"
        near = difflib.get_close_matches(name, [*self._inputs, *self._last], n=1)
        return f", did you mean {near[0]!r}?" if near else ""
