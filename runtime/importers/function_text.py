"""Operators of ONNX Runtime (`com.microsoft`) as text of functions of ONNX, as its parser reads it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from onnx import NodeProto

from runtime.errors import UnsupportedError
from runtime.importers.functions import node_name

DOMAIN = "com.microsoft"
OPSET = 21

Shape = tuple[int, ...]
FunctionText = Callable[[NodeProto], str]
# A node, the shapes of its inputs (empty where one is absent) -> the text of its function.
ShapedText = Callable[[NodeProto, Sequence[Shape]], str]
Number = TypeVar("Number", int, float)


def without_shapes(text: FunctionText) -> ShapedText:
    """A text that is the same for all shapes."""
    return lambda proto, shapes: text(proto)


def is_given(proto: NodeProto, index: int) -> bool:
    """Whether a node has an input."""
    return index < len(proto.input) and bool(proto.input[index])


def given(proto: NodeProto, name: str, default: Number) -> Number:
    """A number among a node's attributes."""
    found = next((attribute for attribute in proto.attribute if attribute.name == name), None)
    if found is None:
        return default
    value: Number = found.f if isinstance(default, float) else found.i
    return value


def function_text(
    proto: NodeProto, reads: str, body: str, attributes: str = "", opset: int = OPSET, writes: str = "y"
) -> str:
    """The function of a node; `reads`, `writes`: what the body calls inputs and outputs, by their places."""
    declared = f"<{', '.join(attributes.split())}>" if attributes else ""
    inputs, outputs = (", ".join(names.split()) for names in (reads, writes))
    head = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {proto.op_type} {declared} ({inputs}) => ({outputs})'
    return f"{head} {{ {body} }}"


def constant(name: str, value: float | Sequence[int]) -> str:
    """The node of a constant: a float, or whole numbers."""
    kind = f"value_float = {value:.9g}" if isinstance(value, float) else f"value_ints = {list(value)}"
    return f"{name} = Constant <{kind}> () "


def unsupported(proto: NodeProto, what: str, supported: object = "none") -> UnsupportedError:
    """The refusal of a node, with its name."""
    return UnsupportedError(f"{proto.op_type} '{node_name(proto)}': {what}; supported: {supported}")


def refuse_input(proto: NodeProto, index: int, what: str) -> None:
    """Raises UnsupportedError where a node has an input."""
    if is_given(proto, index):
        raise unsupported(proto, f"{what} '{proto.input[index]}'")
