"""Pad fusion: a Pad of the image becomes the padding of the convolution or pooling after it."""

from __future__ import annotations

import numpy as np

from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor


def fuse_pads(graph: Graph) -> list[str]:
    """Fuses Pad into Conv, AveragePool and MaxPool where its value is the one that they pad with."""
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes("Conv", "AveragePool", "MaxPool"):
        pad = editor.producer(node.inputs[0], "Pad")
        if pad is None or not _fits(pad, node):
            continue
        changes.append(f"{pad.name} into {node.name}")
        node.attrs["pads"] = _summed(pad, node)
        if node.op == "AveragePool":
            node.attrs["count_include_pad"] = True
        editor.set_inputs(node, [pad.inputs[0], *node.inputs[1:]])
    editor.finish()
    return changes


def _summed(pad: Node, node: Node) -> tuple[int, ...]:
    """Adds the padding of both nodes: (top, left, bottom, right)."""
    extra = (*pad.attrs["pads"][2:4], *pad.attrs["pads"][6:8])
    return tuple(own + more for own, more in zip(node.attrs["pads"], extra, strict=True))


def _fits(pad: Node, node: Node) -> bool:
    pads = pad.attrs["pads"]
    if pad.attrs["mode"] != "constant" or any(pads[:2]) or any(pads[4:6]):
        return False
    if node.op == "Conv":
        return bool(pad.attrs["value"] == 0)
    if any(side >= size for side, size in zip(_summed(pad, node), node.attrs["kernel"] * 2, strict=True)):
        return False  # a window of padding alone has no value in a pool
    if node.op == "MaxPool":
        return bool(pad.attrs["value"] <= np.finfo(np.float32).min)
    return bool(pad.attrs["value"] == 0 and (node.attrs["count_include_pad"] or not any(node.attrs["pads"])))
