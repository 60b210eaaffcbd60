"""Rearrangements that frameworks write out as Reshape, Transpose and Reshape become one operator: channel shuffle, and
DepthToSpace and SpaceToDepth as PyTorch has them."""

from __future__ import annotations

import itertools

from runtime.families.depth.axes import Blocks
from runtime.families.depth.definition import MODES
from runtime.graph import Node
from runtime.passes.editor import GraphEditor, pass_over

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
