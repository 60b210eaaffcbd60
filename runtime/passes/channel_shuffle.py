"""Channel shuffle: a Reshape to groups, a Transpose of groups and channels and a Reshape back become one operator."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.passes.editor import GraphEditor


def fuse_channel_shuffles(graph: Graph) -> list[str]:
    """Turns [n, c, h, w] -> [n, g, c/g, h, w] -> [n, c/g, g, h, w] -> [n, c, h, w] into ChannelShuffle."""
    editor = GraphEditor(graph)
    changes = []
    for last in editor.nodes("Reshape"):
        transpose = editor.sole_producer(last.inputs[0], "Transpose")
        first = editor.sole_producer(transpose.inputs[0], "Reshape") if transpose is not None else None
        if transpose is None or first is None or transpose.attrs["perm"] != (0, 2, 1, 3, 4):
            continue
        shape, grouped = graph.shape(first.inputs[0]), first.attrs["shape"]
        if len(shape) == 4 and last.attrs["shape"] == shape and (grouped[0], *grouped[3:]) == (shape[0], *shape[2:]):
            changes.append(f"{first.name}, {transpose.name} into {last.name}")
            editor.rewrite(last, "ChannelShuffle", first.inputs, {"group": grouped[1]})
            editor.drop(transpose)
            editor.drop(first)
    editor.finish()
    return changes
