"""Shared heads: attention reads keys and values that several heads of queries share where they lie, without copies."""

from __future__ import annotations

from typing import Any

from runtime.graph import Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.views import SourceView, view_of
from runtime.semantics.generic import row_major_strides

_MOVES = ("Transpose", "Slice", "Reshape", "Strided")
_HEAD = 1  # the axis of strides
_K, _V = 1, 2  # inputs


@pass_over("Attention")
def share_heads(editor: GraphEditor, node: Node) -> str:
    """Passes over Reshape(Expand(Unsqueeze(x))) before keys and values, which repeats each head for those of a group.

    Of one image or sequence: the groups take the place of the batch. Where each head has one query, a group is a head
    with a query for each of its heads, so that keys and values are read once.
    """
    batch, heads, queries, keys, depth, values = node.attrs["extents"]
    views = [_repeated(editor, node, index, heads) for index in (_K, _V)]
    k, v = views
    if batch != 1 or k is None or v is None or k.shape[:3] != v.shape[:3]:
        return ""
    groups, members = k.shape[1:3]
    as_queries = queries == 1 and not node.attrs["causal"]
    changed: dict[str, Any] = {"offsets": (node.attrs["offsets"][0], k.offset, v.offset)}
    for name in ("q", "mask", "y"):
        _, head, query, element = node.attrs[f"{name}_strides"]
        inner = (0, head * members, head, element) if as_queries else (head * members, head, query, element)
        changed[f"{name}_strides"] = inner
    for name, view in (("k", k), ("v", v)):
        group, place, element = view.strides[1], *view.strides[3:]
        changed[f"{name}_strides"] = (0, group, place, element) if as_queries else (group, 0, place, element)
    leading = (1, groups, members) if as_queries else (groups, members, queries)
    changed["extents"] = (*leading, keys, depth, values)
    inputs = [node.inputs[0], k.source, v.source, *node.inputs[3:]]
    editor.rewrite(node, "Attention", inputs, {**node.attrs, **changed})
    return node.name


def _repeated(editor: GraphEditor, node: Node, index: int, heads: int) -> SourceView | None:
    """Keys or values by (1, group, head of it, place, element) where all heads of a group are the same."""
    tensor, letter = node.inputs[index], "qkv"[index]
    join = editor.producer(tensor, "Reshape")
    shape = editor.graph.shape(tensor)
    strides = tuple(node.attrs[f"{letter}_strides"])
    if join is None or len(shape) != 4 or shape[:2] != (1, heads) or node.attrs["offsets"][index]:
        return None
    apart = editor.graph.shape(join.inputs[0])
    whole = strides[_HEAD:] == row_major_strides(shape)[_HEAD:]
    if not whole or len(apart) != 5 or (apart[0], *apart[3:]) != (1, *shape[2:]):
        return None
    view = view_of(editor, join.inputs[0], *_MOVES)
    return view if apart[2] > 1 and view.strides[2] == 0 else None
