"""Attention fusion: softmax(scale * q k + mask) v becomes one operator, which reads and writes heads in place."""

import dataclasses
from typing import Any

import numpy as np

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
    softmax, safe = _softmax(editor, node.inputs[0])
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
        "members": 1,
        "scale": float(scores.factor * q.factor * k.factor),
        "causal": causal,
        "safe": safe and not _leaves_a_key(editor, mask[0]),
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


def _softmax(editor: GraphEditor, tensor: str) -> tuple[Node | None, bool]:
    """The softmax that writes a tensor, and whether 0 takes the place of weights where all keys are hidden."""
    node = editor.sole_producer(tensor, "Softmax", "Elementwise")
    if node is None or node.op == "Softmax":
        return node, False
    if node.attrs["function"] != "where" or editor.scalar(node.inputs[1]) != 0:
        return None, False
    condition, _, weights = node.inputs
    test, softmax = editor.sole_producer(condition, "Elementwise"), editor.producer(weights, "Softmax")
    if test is None or softmax is None or editor.graph.shape(weights) != editor.graph.shape(tensor):
        return None, False
    readers = editor.readers(weights)
    alone = weights not in editor.graph.outputs and all(reader in (test, node) for reader in readers)
    hidden = _is_nan(test, weights) or _hides_all(editor, test, softmax)
    return (softmax if alone and hidden else None), True


def _is_nan(test: Node, weights: str) -> bool:
    """Whether weights are tested as PyTorch writes it."""
    return bool(test.attrs["function"] == "is_nan") and test.inputs == [weights]


def _hides_all(editor: GraphEditor, test: Node, softmax: Node) -> bool:
    """Whether a test is of a mask that hides all keys of a query, as ONNX defines attention."""
    added = editor.producer(softmax.inputs[0], "Add")
    if test.attrs["function"] != "equal" or editor.scalar(test.inputs[1]) != -np.inf or added is None:
        return False
    most = editor.producer(test.inputs[0], "ReduceMax")
    if most is None or most.inputs[0] not in added.inputs or not most.attrs["keepdims"]:
        return False
    return tuple(most.attrs["axes"]) == (len(editor.graph.shape(most.inputs[0])) - 1,)


def _leaves_a_key(editor: GraphEditor, mask: str) -> bool:
    """Whether each query surely has a weight: there is no mask, or a constant one that nowhere hides all keys."""
    value = editor.graph.constants.get(mask)
    return not mask or (value is not None and bool(np.isfinite(np.atleast_1d(value).max(axis=-1)).all()))


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
    if chosen is None or value is None or value > _MASKED:
        return []
    if value != -np.inf and not chosen.any(axis=-1).all():
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
