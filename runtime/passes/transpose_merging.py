"""Transposes that vanish: merged, written as Reshape, read in place by a product, one operator with Reshapes."""

import itertools

from runtime.families.depth.axes import Blocks
from runtime.families.depth.definition import MODES
from runtime.formats.permutation import Permutation, composed, moves_elements
from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.transpose_movement.cost import transpose_bytes
from runtime.passes.views import SourceView, view_of
from runtime.semantics.generic import row_major_strides


def merge_transposes(graph: Graph) -> list[str]:
    """Composes transpositions where that moves no more bytes; identity removal drops those that cancel."""
    editor = GraphEditor(graph)
    changes = [*_composed(editor), *_trivial(editor)]
    editor.finish()
    return changes


def _composed(editor: GraphEditor) -> list[str]:
    changes = []
    for node in editor.nodes("Transpose"):
        first = editor.producer(node.inputs[0], "Transpose")
        if first is None:
            continue
        perm = composed(first.attrs["perm"], node.attrs["perm"])
        if editor.private(first.output) or _moves_no_more(editor, first, node, perm):
            editor.rewrite(node, "Transpose", [first.inputs[0]], {"perm": perm})
            changes.append(f"{first.name} into {node.name}")
    return changes


def _moves_no_more(editor: GraphEditor, first: Node, node: Node, perm: Permutation) -> bool:
    """Whether one step from the source moves no more than the second of two, where the first one stays for others."""
    now = transpose_bytes(editor.graph, first.output, node.attrs["perm"])
    return transpose_bytes(editor.graph, first.inputs[0], perm) <= now


def _trivial(editor: GraphEditor) -> list[str]:
    changes = []
    for node in editor.nodes("Transpose"):
        perm = node.attrs["perm"]
        if perm != tuple(sorted(perm)) and not moves_elements(editor.graph.shape(node.inputs[0]), perm):
            editor.rewrite(node, "Reshape", node.inputs, {"shape": editor.graph.shape(node.output)})
            changes.append(f"{node.name} into a Reshape")
    return changes


_MOST_AXES = 5  # of the product; the devices' kernel has three loops around rows and columns


@pass_over("MatMul")
def absorb_transposed_operands(editor: GraphEditor, node: Node) -> str:
    """Turns MatMul of transposed tensors into StridedProduct of what was transposed.

    The left operand is taken only while its rows stay runs of neighbours, which all kernels read fast.
    """
    shape = editor.graph.shape(node.output)
    a, b = (_operand(editor, name, is_left=index == 0) for index, name in enumerate(node.inputs))
    if len(shape) > _MOST_AXES or [a.source, b.source] == node.inputs:
        return ""
    attributes = {
        "shape": shape,
        "summed": a.shape[-1:],
        "a_strides": (*_batch(a, shape), a.strides[-2], 0, a.strides[-1]),
        "b_strides": (*_batch(b, shape), 0, b.strides[-1], b.strides[-2]),
    }
    editor.rewrite(node, "StridedProduct", [a.source, b.source], attributes)
    return node.name


def _operand(editor: GraphEditor, tensor: str, is_left: bool) -> SourceView:
    """The tensor as a view of what it was transposed from; the tensor itself where nothing was, or it is no use."""
    shape = editor.graph.shape(tensor)
    found = view_of(editor, tensor, "Transpose", "Reshape")
    plain = SourceView(tensor, shape, _dense(shape), 0, 1.0)
    is_useful = found.strides != plain.strides and (not is_left or found.strides[-1] in (0, 1))
    return found if is_useful else plain


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(0 if size == 1 else step for size, step in zip(shape, row_major_strides(shape), strict=True))


def _batch(view: SourceView, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the stack along the axes of the output, 0 where it repeats."""
    stack = view.strides[:-2]
    return (*(0,) * (len(shape) - 2 - len(stack)), *stack)


# Rearrangements that frameworks write out as Reshape, Transpose and Reshape become one operator: channel shuffle, and
# DepthToSpace and SpaceToDepth as PyTorch has them.
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@pass_over("Reshape")
def fuse_rearrangements(editor: GraphEditor, last: Node) -> str:
    """Makes one operator of three that only rearrange the channels, or blocks of pixels and channels, of an image."""
    transpose = editor.sole_producer(last.inputs[0], "Transpose")
    first = editor.sole_producer(transpose.inputs[0], "Reshape") if transpose is not None else None
    if transpose is None or first is None:
        return ""
    if not (_shuffle(editor, first, transpose, last) or _blocks(editor, first, transpose, last)):
        return ""
    editor.drop(transpose)
    editor.drop(first)
    return f"{first.name}, {transpose.name} into {last.name}"


def _shuffle(editor: GraphEditor, first: Node, transpose: Node, last: Node) -> bool:
    """Makes [n, c, h, w] -> [n, g, c/g, h, w] -> [n, c/g, g, h, w] -> [n, c, h, w] a ChannelShuffle, if they are that.

    The same in NHWC, [n, h, w, c] -> [n, h, w, g, c/g] -> ..., becomes a ChannelShuffle between two Transposes.
    """
    shape, grouped, perm = last.attrs["shape"], first.attrs["shape"], transpose.attrs["perm"]
    if len(shape) != 4 or len(grouped) != 5 or shape != editor.graph.shape(first.inputs[0]):
        return False
    if perm == (0, 2, 1, 3, 4) and (grouped[0], *grouped[3:]) == (shape[0], *shape[2:]):
        editor.rewrite(last, "ChannelShuffle", first.inputs, {"group": grouped[1]})
        return True
    if perm == (0, 1, 2, 4, 3) and grouped[:3] == shape[:3]:
        image = editor.insert_before(last, "Transpose", first.name, first.inputs, {"perm": _TO_NCHW})
        shuffled = editor.insert_before(last, "ChannelShuffle", transpose.name, [image], {"group": grouped[3]})
        editor.rewrite(last, "Transpose", [shuffled], {"perm": _TO_NHWC})
        return True
    return False


def _blocks(editor: GraphEditor, first: Node, transpose: Node, last: Node) -> bool:
    """Makes three nodes through six axes a DepthToSpace or SpaceToDepth, if their blocks have several pixels."""
    source, split, result = editor.graph.shape(first.inputs[0]), first.attrs["shape"], last.attrs["shape"]
    if len(source) != 4 or len(split) != 6 or len(result) != 4:
        return False
    op = "DepthToSpace" if source[1] > result[1] else "SpaceToDepth"
    for mode, size in itertools.product(MODES, sorted({*split} - {1})):
        found = Blocks.between(op, mode, size, source, result)
        if (found.split, found.perm) == (split, transpose.attrs["perm"]) and found.wide in (source, result):
            editor.rewrite(last, op, first.inputs, {"blocksize": size, "mode": mode})
            return True
    return False
