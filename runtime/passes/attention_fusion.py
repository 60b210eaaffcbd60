"""Attention fusion: softmax(scale * q k + mask) v becomes one operator, with heads in place; so does rotating."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from runtime.families.rotary.definition import MOST_AXES
from runtime.graph import Array, Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.views import SourceView, view_of
from runtime.semantics.generic import broadcast_view, row_major_strides

_MOST_AXES, _MOST_ELEMENTS = 4, 256  # what the kernel has loops and registers for
_MOVES, _SCALES = ("Transpose", "Slice", "Reshape"), ("Mul", "Div")
_MASKED = -1e4  # a score that is lowered by this much or more has no weight
_HIDDEN = -1e30  # likewise, whatever the scores are

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Scores:
    """factor * (product of q and k) + mask; the mask's name is empty where there is none."""

    product: Node
    factor: float
    mask: str


@pass_over("MatMul")
def fuse_attention(editor: GraphEditor, node: Node) -> str:
    """Fuses products, scale, mask, softmax and the transpositions around them, where nothing else reads the scores."""
    softmax = _softmax(editor, node.inputs[0])
    shape = editor.graph.shape(node.output)
    if softmax is None or softmax.attrs["axis"] != len(shape) - 1 or len(shape) > _MOST_AXES:
        return ""
    scores = _scores(editor, softmax.inputs[0])
    if scores is None or editor.graph.shape(scores.product.output) != editor.graph.shape(softmax.output):
        return ""
    q, k = (view_of(editor, name, *_MOVES, *_SCALES) for name in scores.product.inputs)
    v = view_of(editor, node.inputs[1], *_MOVES)
    if max(q.shape[-1], v.shape[-1]) > _MOST_ELEMENTS:
        return ""
    target, y_shape, y_strides = _output(editor, node)
    mask, causal = _mask(editor, scores.mask, (*shape[:-1], k.shape[-1]))
    attributes = {
        "extents": (*_leading(shape), q.shape[-2], k.shape[-1], q.shape[-1], v.shape[-1]),
        "q_strides": _strides(q),
        "k_strides": _strides(k, transposed=True),
        "v_strides": _strides(v),
        "mask_strides": mask[1],
        "offsets": (q.offset, k.offset, v.offset),
        "shape": y_shape,
        "y_strides": y_strides,
        "scale": float(scores.factor * q.factor * k.factor),
        "causal": causal,
    }
    _write(editor, node, target, [q.source, k.source, v.source, mask[0]], attributes)
    return node.name


def _write(editor: GraphEditor, node: Node, target: Node, inputs: list[str], attributes: dict[str, Any]) -> None:
    editor.rewrite(target, "Attention", inputs, attributes)
    if target is not node:
        target.name = node.name
        editor.drop(node)


def _leading(shape: Shape) -> Shape:
    """Batch and heads."""
    return ((1, 1, *shape[:-2]))[-2:]


def _strides(view: SourceView, transposed: bool = False) -> Shape:
    """Strides of batch, head, place and element; of a transposed view the last two stand the other way round."""
    strides = (0, 0, *view.strides)[-4:]
    return (*strides[:2], strides[3], strides[2]) if transposed else strides


def _softmax(editor: GraphEditor, tensor: str) -> Node | None:
    """The softmax that writes a tensor; a choice that always takes it, as ONNX's definition has one, is passed over."""
    node = editor.sole_producer(tensor, "Softmax", "Elementwise")
    if node is None or node.op == "Softmax":
        return node
    instead = editor.graph.constants.get(node.inputs[0]) if node.attrs["function"] == "where" else None
    if instead is None or instead.any():
        return None
    softmax = editor.sole_producer(node.inputs[2], "Softmax")
    same_shape = softmax is not None and editor.graph.shape(softmax.output) == editor.graph.shape(tensor)
    return softmax if same_shape else None


def _scores(editor: GraphEditor, tensor: str) -> Scores | None:
    """Reads what the softmax is of; None where it holds no product."""
    found = _scaled_product(editor, tensor)
    if found is not None:
        return Scores(*found, "")
    added = _masked(editor, tensor)
    for scores, mask in added:
        found = _scaled_product(editor, scores)
        if found is not None:
            return Scores(*found, mask)
    return None


def _masked(editor: GraphEditor, tensor: str) -> list[tuple[str, str]]:
    """Scores and mask, in either order, where a mask is added or chosen; none of anything else."""
    node = editor.sole_producer(tensor, "Add", "Elementwise")
    if node is None or "activation" in node.attrs:
        return []
    if node.op == "Add":
        return [(node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])]
    return _chosen(editor, node) if node.attrs["function"] == "where" else []


def _chosen(editor: GraphEditor, node: Node) -> list[tuple[str, str]]:
    """A constant choice between scores and a number that leaves no weight is the sum with a mask."""
    condition, scores, filler = node.inputs
    chosen, value = editor.graph.constants.get(condition), editor.scalar(filler)
    if chosen is None or value is None or value > _MASKED or not chosen.any(axis=-1).all():
        return []
    mask = np.where(chosen, np.float32(0), np.float32(value))
    return [(scores, editor.add_constant(f"{node.name}/mask", mask))]


def _scaled_product(editor: GraphEditor, tensor: str) -> tuple[Node, float] | None:
    """Reads a product of matrices times a constant."""
    factor = 1.0
    while (node := editor.sole_producer(tensor, "MatMul", *_SCALES)) is not None and node.op != "MatMul":
        values = [editor.scalar(name) for name in node.inputs]
        index = 0 if values[1] else 1
        value = values[1 - index]
        if not value or "activation" in node.attrs or (node.op == "Div" and index == 1):
            return None
        factor *= value if node.op == "Mul" else 1 / value
        tensor = node.inputs[index]
    return None if node is None else (node, factor)


def _output(editor: GraphEditor, node: Node) -> tuple[Node, Shape, Shape]:
    """The node that writes the result, which may be a transposition behind it, and its output's shape and strides."""
    shape, graph = editor.graph.shape(node.output), editor.graph
    readers = editor.readers(node.output)
    if editor.private(node.output) and readers[0].op == "Transpose":
        dense = row_major_strides(graph.shape(readers[0].output))
        order = np.argsort(readers[0].attrs["perm"])
        return readers[0], graph.shape(readers[0].output), (0, 0, *(dense[axis] for axis in order))[-4:]
    return node, shape, (0, 0, *row_major_strides(shape))[-4:]


def _mask(editor: GraphEditor, name: str, shape: Shape) -> tuple[tuple[str, Shape], bool]:
    """The mask with its strides, and whether it hides exactly the keys behind a query's place: then there is none."""
    value = editor.graph.constants.get(name)
    if value is not None and not value.any():
        name, value = "", None
    if not name or (value is not None and _is_causal(value, shape)):
        return ("", (0, 0, 0, 0)), bool(name)
    return (name, (0, 0, *broadcast_view(editor.graph.shape(name), shape))[-4:]), False


def _is_causal(mask: Array, shape: Shape) -> bool:
    visible = np.tri(*shape[-2:], dtype=np.bool_)
    if mask.shape[-2:] != visible.shape:
        return False
    return bool((mask[..., visible] == 0).all() and (mask[..., ~visible] <= _HIDDEN).all() and (~visible).any())


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
