"""DepthToSpace and SpaceToDepth as PyTorch writes them out: a Reshape to six axes, a Transpose, a Reshape."""

from __future__ import annotations

import itertools

from runtime.families.depth.axes import Blocks
from runtime.families.depth.definition import MODES
from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor


def fuse_depth_to_space(graph: Graph) -> list[str]:
    """Makes one operator of three that only rearrange blocks of pixels and channels of an image."""
    editor = GraphEditor(graph)
    changes = []
    for last in editor.nodes("Reshape"):
        transpose = editor.sole_producer(last.inputs[0], "Transpose")
        first = editor.sole_producer(transpose.inputs[0], "Reshape") if transpose is not None else None
        if transpose is None or first is None:
            continue
        blocks = _blocks(graph, first, transpose, last)
        if blocks is not None:
            changes.append(f"{first.name}, {transpose.name} into {last.name}")
            editor.rewrite(last, blocks.op, first.inputs, {"blocksize": blocks.size, "mode": blocks.mode})
            editor.drop(transpose)
            editor.drop(first)
    editor.finish()
    return changes


def _blocks(graph: Graph, first: Node, transpose: Node, last: Node) -> Blocks | None:
    """The rearrangement that three nodes are; None where they are none of more than one pixel a block."""
    source, split, result = graph.shape(first.inputs[0]), first.attrs["shape"], last.attrs["shape"]
    if len(source) != 4 or len(split) != 6 or len(result) != 4:
        return None
    op = "DepthToSpace" if source[1] > result[1] else "SpaceToDepth"
    for mode, size in itertools.product(MODES, sorted({*split} - {1})):
        found = Blocks.between(op, mode, size, source, result)
        if (found.split, found.perm) == (split, transpose.attrs["perm"]) and found.wide in (source, result):
            return found
    return None
