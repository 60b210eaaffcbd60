"""Channel shuffle: a Reshape to groups, a Transpose of groups and channels and a Reshape back become one operator."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor

_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def fuse_channel_shuffles(graph: Graph) -> list[str]:
    """Turns [n, c, h, w] -> [n, g, c/g, h, w] -> [n, c/g, g, h, w] -> [n, c, h, w] into ChannelShuffle.

    The same in NHWC, [n, h, w, c] -> [n, h, w, g, c/g] -> ..., becomes a ChannelShuffle between two Transposes.
    """
    editor = GraphEditor(graph)
    changes = []
    for last in editor.nodes("Reshape"):
        transpose = editor.sole_producer(last.inputs[0], "Transpose")
        first = editor.sole_producer(transpose.inputs[0], "Reshape") if transpose is not None else None
        if transpose is None or first is None or last.attrs["shape"] != graph.shape(first.inputs[0]):
            continue
        if _shuffle(editor, first, transpose, last):
            changes.append(f"{first.name}, {transpose.name} into {last.name}")
            editor.drop(transpose)
            editor.drop(first)
    editor.finish()
    return changes


def _shuffle(editor: GraphEditor, first: Node, transpose: Node, last: Node) -> bool:
    """Makes the last of three nodes the whole shuffle, if they are one."""
    shape, grouped, perm = last.attrs["shape"], first.attrs["shape"], transpose.attrs["perm"]
    if len(shape) != 4 or len(grouped) != 5:
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
