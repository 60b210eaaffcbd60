"""One node of an ONNX model, with checked access to its inputs, attributes and axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import onnx

from runtime.errors import ModelError, UnsupportedError

T = TypeVar("T")
SHOWN = 200  # characters of a value


@dataclasses.dataclass
class OnnxNode:
    """One node: `opset` is the version of its domain; `read` collects the attributes that were asked for."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int
    attributes: dict[str, Any]
    read: set[str] = dataclasses.field(default_factory=set)

    @classmethod
    def parse(cls, proto: onnx.NodeProto, opset: int, renamed: Mapping[str, str]) -> OnnxNode:
        """Reads a node; one without a name takes that of its first output. `renamed`: tensors of another name here."""
        name = proto.name or next(filter(None, proto.output), proto.op_type)
        attributes = {attribute.name: _value(attribute) for attribute in proto.attribute}
        inputs, outputs = (tuple(renamed.get(name, name) for name in names) for names in (proto.input, proto.output))
        return cls(proto.op_type, name, inputs, outputs, opset, attributes)

    def __str__(self) -> str:
        return f"node '{self.name}' ({self.op})"

    def input(self, index: int) -> str:
        """Name of an input that must be there."""
        if name := self.optional(index):
            return name
        raise ModelError(f"{self}: input {index} is missing")

    def optional(self, index: int) -> str:
        """Name of an input, empty where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    @property
    def output(self) -> str:
        """Name of the first output."""
        if self.outputs and self.outputs[0]:
            return self.outputs[0]
        raise ModelError(f"{self}: it has no output")

    @property
    def label(self) -> str:
        """What derived tensors are named after: the first output that is there."""
        return next(filter(None, self.outputs), self.name)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return self._get(name, int, default)

    def real(self, name: str, default: float) -> float:
        """A float attribute."""
        return self._get(name, float, default)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        return self._get(name, str, default)

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        return self._list(name, int, default)

    def reals(self, name: str, default: Sequence[float] = ()) -> tuple[float, ...]:
        """An attribute that is a list of floats."""
        return self._list(name, float, default)

    def has(self, name: str) -> bool:
        """Whether the node gives a value for the attribute."""
        return name in self.attributes

    def choice(self, name: str, default: str, supported: Sequence[str]) -> str:
        """A string attribute that must be one of those supported."""
        value = self.text(name, default)
        if value not in supported:
            raise self.unsupported(name, value, ", ".join(supported))
        return value

    def only(self, name: str, supported: int) -> None:
        """Refuses an integer attribute of any value but the supported one, which is its default."""
        value = self.integer(name, supported)
        if value != supported:
            raise self.unsupported(name, value, str(supported))

    def unsupported(self, attribute: str, value: object, supported: str) -> UnsupportedError:
        """The error that names node, operator, attribute and value, and what is supported."""
        text = value_text(value) if isinstance(value, int | float | str | list | tuple) else f"a {type(value).__name__}"
        return UnsupportedError(f"{self}: {attribute} is {text}; supported: {supported}")

    def unread(self) -> list[str]:
        """The attributes that nobody asked for: what this importer does not know."""
        return sorted(self.attributes.keys() - self.read)

    def _get(self, name: str, kind: type[T], default: T) -> T:
        self.read.add(name)
        value = self.attributes.get(name, default)
        if type(value) is not kind:
            raise ModelError(f"{self}: attribute {name} is {value_text(value)}, not of type {kind.__name__}")
        return value

    def _list(self, name: str, kind: type[T], default: Sequence[T]) -> tuple[T, ...]:
        self.read.add(name)
        value = self.attributes.get(name, tuple(default))
        if type(value) is not tuple or any(type(item) is not kind for item in value):
            raise ModelError(f"{self}: attribute {name} is {value_text(value)}, not a list of type {kind.__name__}")
        return value


def value_text(value: object) -> str:
    """A value of the model within an error: no more of it than fits a line."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def subgraph(proto: onnx.NodeProto, node: OnnxNode, name: str) -> onnx.GraphProto:
    """A graph that a node has as attribute."""
    for attribute in proto.attribute:
        if attribute.name == name and attribute.type == onnx.AttributeProto.GRAPH:
            graph: onnx.GraphProto = attribute.g
            return graph
    raise ModelError(f"{node}: it has no {name}")


def _value(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type in {onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS}:
        return tuple(value)
    return value


def normalized_axis(node: OnnxNode, axis: int, rank: int) -> int:
    """Counts an axis from the front; raises ModelError where a tensor of `rank` axes does not have it."""
    if not -rank <= axis < rank:
        raise ModelError(f"{node}: axis {axis} is not an axis of a tensor of {rank} axes")
    return axis % rank
