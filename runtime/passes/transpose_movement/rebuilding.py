"""Rewrites a graph so that the operators of its regions are in the frames that were chosen for them."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from runtime.formats.permutation import Permutation, composed, moves_elements, permuted
from runtime.graph import Graph, MovedTensor, Node, TensorInfo, unused_name
from runtime.operators.table import infer_dtype, infer_shape, input_shapes
from runtime.passes.transpose_movement.regions import Movable, Region, aligned
from runtime.semantics import quantization


@dataclasses.dataclass(frozen=True)
class Choice:
    """A region and the frame that each of its operators is to be in."""

    region: Region
    frames: Sequence[int]


class Rebuilding:
    """Walks over the nodes once and writes them anew; `changes` says what was done, a line each.

    A *form* of a group is its tensor in one frame, by root and frame. It has the name that the graph had for it.
    """

    def __init__(self, graph: Graph, choices: Sequence[Choice]) -> None:
        self._graph = graph
        self._regions = {name: choice.region for choice in choices for name in choice.region.frames}
        self._movables = {id(each.node): (each, frame) for choice in choices for each, frame in _pairs(choice)}
        self._dissolved = {id(node): node for choice in choices for node in choice.region.dissolved.values()}
        self._names = self._names_of_forms()
        self._forms: dict[tuple[str, int], str] = {}  # those that are computed by now
        self._constants: dict[tuple[str, Permutation], str] = {}
        self._narrow: dict[tuple[str, Permutation], str] = {}
        self._known: dict[str, quantization.Quantization | None] = {}  # of forms that the graph did not have
        self._node_names = {node.name for node in graph.nodes}
        self._nodes: list[Node] = []
        self.changes = [f"{node.name} removed" for node in self._dissolved.values()]

    def run(self) -> None:
        """Replaces the graph's nodes."""
        for name in self._graph.inputs:
            if name in self._regions:
                self._forms[name, self._regions[name].frames[name]] = name
        for node in self._graph.nodes:
            if id(node) not in self._dissolved:
                self._write(node)
        for name in self._graph.outputs:
            form = self._form(name)
            if form != name:
                self._add("Identity", f"{name}/Identity", form, name, {})
        self._graph.nodes = self._nodes

    def _names_of_forms(self) -> Mapping[tuple[str, int], str]:
        """The name of each form that the graph has: an output's where it is one."""
        names: dict[tuple[str, int], str] = {}
        for name in (*self._graph.outputs, *self._regions):
            if name in self._regions:
                region = self._regions[name]
                names.setdefault((region.root(name), region.frames[name]), name)
        return names

    # Forms of tensors

    def _form(self, tensor: str, frame: int | None = None) -> str:
        """The tensor in a frame, by default its own; a Transpose writes it where it is not there yet."""
        if tensor not in self._regions:
            return tensor
        region = self._regions[tensor]
        root, wanted = region.root(tensor), region.frames[tensor] if frame is None else frame
        if (root, wanted) not in self._forms:
            self._transpose(region, root, wanted)
        return self._forms[root, wanted]

    def _transpose(self, region: Region, root: str, frame: int) -> None:
        source, name = self._forms[root, 1 - frame], self._new_form(root, frame)
        dissolved = region.dissolved.get(name)
        label = dissolved.name if dissolved else self._unused_label(f"{root}/Transpose")
        self._add("Transpose", label, source, name, {"perm": region.perm_from(1 - frame)})

    def _new_form(self, root: str, frame: int) -> str:
        """The name of a form that is about to be written."""
        name = self._names.get((root, frame)) or self._moved(root, frame)
        self._forms[root, frame] = name
        return name

    def _moved(self, root: str, frame: int) -> str:
        """A new name for a form that the graph did not have; the graph remembers which tensor it is."""
        name, moved = self._unused_tensor(f"{root}/transposed"), self._graph.moved
        perm = self._regions[root].perm_from(1 - frame)
        source = moved.get(root, MovedTensor(root, tuple(range(len(perm)))))
        moved[name] = MovedTensor(source.tensor, composed(source.perm, perm))
        known = self._graph.tensors[root].quantization
        self._known[name] = known if known and known.is_whole else None
        return name

    def _unused_tensor(self, name: str) -> str:
        return unused_name(name, self._graph.tensors)

    def _unused_label(self, name: str) -> str:
        unique = unused_name(name, self._node_names)
        self._node_names.add(unique)
        return unique

    # Nodes

    def _write(self, node: Node) -> None:
        movable, frame = self._movables.get(id(node), (None, 0))
        if movable is not None and movable.frame != frame:
            self._write_moved(movable)
        else:
            inputs = [self._form(name) for name in node.inputs]
            self._append(Node(node.op, node.name, inputs, [self._written(node.output)], node.attrs))

    def _written(self, tensor: str) -> str:
        """The name of an output that stays in its frame."""
        region = self._regions.get(tensor)
        return self._new_form(tensor, region.frames[tensor]) if region else tensor

    def _write_moved(self, movable: Movable) -> None:
        """Writes an operator in the frame that it was not in."""
        node, frame, rewriting = movable.node, 1 - movable.frame, movable.rewriting
        region = self._regions[next(iter(movable.tensors))]
        perm = region.perm_from(movable.frame)
        inputs = [
            self._operand(name, perm, frame) if name and rewriting.reads_permuted(index) else self._form(name)
            for index, name in enumerate(node.inputs)
        ]
        output = self._new_form(node.output, frame) if rewriting.moves_output else self._written(node.output)
        self._append(Node(node.op, node.name, inputs, [output], dict(rewriting.attributes)))
        self.changes.append(f"{node.name} moved")

    def _operand(self, name: str, perm: Permutation, frame: int) -> str:
        if self._graph.is_constant(name):
            return self._constant(name, perm)
        if len(self._graph.shape(name)) < len(perm):
            return self._narrow_operand(name, perm)
        return self._form(name, frame)

    def _constant(self, name: str, perm: Permutation) -> str:
        """A constant in the other frame; one of a single element is the same in both."""
        value = self._graph.constants[name]
        if value.size == 1:
            return name
        if (name, perm) not in self._constants:
            moved = value.reshape(aligned(value.shape, len(perm))).transpose(perm)
            made = self._graph.add_constant(f"{name}/transposed", moved.copy(order="C"))
            known = self._graph.tensors[name].quantization
            if known and (known.is_whole or value.ndim == len(perm)):
                known = quantization.transposed([known], [value.shape], {"perm": perm})
                self._graph.tensors[made] = dataclasses.replace(self._graph.tensors[made], quantization=known)
            self._constants[name, perm] = made
        return self._constants[name, perm]

    def _narrow_operand(self, name: str, perm: Permutation) -> str:
        """An operand of fewer axes in the other frame: a Reshape to all axes, and a Transpose where it is needed."""
        if (name, perm) not in self._narrow:
            wide = aligned(self._graph.shape(name), len(perm))
            moves = moves_elements(wide, perm)
            shape = wide if moves else permuted(wide, perm)
            wider = self._unused_tensor(f"{name}/reshaped")
            self._add("Reshape", self._unused_label(f"{name}/Reshape"), name, wider, {"shape": shape})
            if moves:
                source, wider = wider, self._unused_tensor(f"{name}/transposed")
                self._add("Transpose", self._unused_label(f"{name}/Transpose"), source, wider, {"perm": perm})
            self._narrow[name, perm] = wider
        return self._narrow[name, perm]

    def _add(self, op: str, label: str, source: str, output: str, attributes: Mapping[str, object]) -> None:
        self._append(Node(op, label, [source], [output], dict(attributes)))
        self.changes.append(f"{label} added")

    def _append(self, node: Node) -> None:
        self._nodes.append(node)
        tensors = self._graph.tensors
        dtype = infer_dtype(node.op, [tensors[name].dtype for name in node.inputs if name], node.attrs)
        before, shape = tensors.get(node.output), infer_shape(node.op, input_shapes(self._graph, node), node.attrs)
        known = before.quantization if before else self._known.get(node.output)
        tensors[node.output] = TensorInfo(shape, dtype, known)


def _pairs(choice: Choice) -> Iterator[tuple[Movable, int]]:
    return zip(choice.region.operators, choice.frames, strict=True)
