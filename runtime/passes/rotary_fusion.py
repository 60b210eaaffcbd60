"""Rotary fusion: turning the halves of rows by the angles of their places becomes one operator."""

import itertools

from runtime.families.rotary.definition import MOST_AXES
from runtime.graph import Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.views import view_of

Angles = tuple[str, str, str]  # x, its cosines, its sines


@pass_over("Add", "Concat")
def fuse_rotary(editor: GraphEditor, node: Node) -> str:
    """Fuses x cos + (-high, low) sin, and (low cos - high sin, high cos + low sin), where low and high are halves of x.

    What x is transposed, split or sliced from is read where it lies.
    """
    shape = editor.graph.shape(node.output)
    read = _of_whole if node.op == "Add" else _of_halves
    found = None if "activation" in node.attrs else read(editor, node)
    if found is None or len(shape) > MOST_AXES or editor.graph.shape(found[0]) != shape:
        return ""
    x = view_of(editor, found[0], "Transpose", "Slice", "Reshape")
    angles = [editor.graph.shape(name) for name in found[1:]]
    if x.strides[-1] != 1 or any(not table or table[-1] not in (shape[-1], shape[-1] // 2) for table in angles):
        return ""
    attributes = {"shape": shape, "strides": x.strides, "offset": x.offset}
    editor.rewrite(node, "Rotary", [x.source, *found[1:]], attributes)
    return node.name


def _of_whole(editor: GraphEditor, node: Node) -> Angles | None:
    """Reads x cos + (-high, low) sin."""
    for plain, turned in itertools.permutations(node.inputs):
        for (x, cos), (other, sin) in itertools.product(_product(editor, plain), _product(editor, turned)):
            if _turned(editor, other) == x:
                return x, cos, sin
    return None


def _of_halves(editor: GraphEditor, node: Node) -> Angles | None:
    """Reads (low cos - high sin, high cos + low sin)."""
    if len(node.inputs) != 2 or not _along_last(editor, node):
        return None
    less, more = (editor.sole_producer(name, op) for name, op in zip(node.inputs, ("Sub", "Add"), strict=True))
    if less is None or more is None or "activation" in {*less.attrs, *more.attrs}:
        return None
    plain, turned = ([_product(editor, name) for name in node.inputs] for node in (less, more))
    for (low, cos), (high, sin) in itertools.product(*plain):
        x = _half_of(editor, low, 0)
        fits = any((high, cos) in first and (low, sin) in second for first, second in itertools.permutations(turned))
        if x and fits and _half_of(editor, high, 1) == x:
            return x, cos, sin
    return None


def _product(editor: GraphEditor, tensor: str) -> list[tuple[str, str]]:
    """The factors of a product that nothing else reads, in both orders."""
    node = editor.sole_producer(tensor, "Mul")
    if node is None or "activation" in node.attrs:
        return []
    a, b = node.inputs
    return [(a, b), (b, a)]


def _turned(editor: GraphEditor, tensor: str) -> str:
    """The tensor whose halves are exchanged, the first negative; empty of any other."""
    node = editor.producer(tensor, "Concat")
    if node is None or len(node.inputs) != 2 or not _along_last(editor, node):
        return ""
    negative = editor.producer(node.inputs[0], "Neg")
    x = _half_of(editor, node.inputs[1], 0)
    return x if negative is not None and _half_of(editor, negative.inputs[0], 1) == x else ""


def _half_of(editor: GraphEditor, tensor: str, index: int) -> str:
    """The tensor of whose last axis this is the first or the second half; empty of any other."""
    node = editor.producer(tensor, "Slice")
    if node is None:
        return ""
    shape, half = editor.graph.shape(node.inputs[0]), editor.graph.shape(tensor)[-1]
    wanted = {"axes": (len(shape) - 1,), "starts": (index * half,), "steps": (1,)}
    same = all(tuple(node.attrs[name]) == value for name, value in wanted.items())
    return node.inputs[0] if same and shape[-1] == 2 * half else ""


def _along_last(editor: GraphEditor, node: Node) -> bool:
    return bool(node.attrs["axis"] == len(editor.graph.shape(node.output)) - 1)
