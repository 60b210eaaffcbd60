"""Scaled dot-product attention: what the graph's operator Attention is.

    y[b, h, l] = sum over s of p[s] * v[b, h, s],
    p = softmax over s of scale * (q[b, h, l] . k[b, h, s]) + mask[b, h, l, s]

Every input counts as dense and row-major, and strides are in its elements: so heads may lie side by side, behind each
other, or in one tensor with queries, keys and values. Attributes:

    extents                          (batch, heads, queries, keys, depth, values)
    q_strides, k_strides, v_strides  (batch, head, place, element); offsets: where q, k and v begin
    mask_strides                     (batch, head, query, key), 0 where the mask repeats or is absent
    shape, y_strides                 the output's shape, and its strides (batch, head, query, element)
    members                          heads of q that share a head of k and v, and follow each other
    scale, causal                    causal: a key behind the query's place counts nothing
    safe                             a query of which all keys are hidden (whose weights are NaN) gives 0, not NaN
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from runtime.errors import ModelError
from runtime.semantics.generic import row_major_strides

Shape = tuple[int, ...]
ATTRIBUTES: Mapping[str, Literal["ints", "count", "float", "bool"]] = {
    **dict.fromkeys(("extents", "q_strides", "k_strides", "v_strides", "mask_strides", "y_strides"), "ints"),
    **{"offsets": "ints", "shape": "ints", "members": "count", "scale": "float", "causal": "bool", "safe": "bool"},
}


def loops(attributes: Mapping[str, Any]) -> dict[str, Shape]:
    """Extents of the loops of q, k, v, mask and y, in the order of their strides."""
    batch, heads, queries, keys, depth, values = attributes["extents"]
    groups = heads // attributes["members"]
    return {
        "q": (batch, heads, queries, depth),
        "k": (batch, groups, keys, depth),
        "v": (batch, groups, keys, values),
        "mask": (batch, heads, queries, keys),
        "y": (batch, heads, queries, values),
    }


def attention_shape(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    """Shape of the output; ModelError where a loop leaves its tensor, or the output has gaps."""
    if len(attributes["extents"]) != 6 or min(attributes["extents"]) < 1 or len(attributes["offsets"]) != 3:
        raise ModelError(f"extents {attributes['extents']} and offsets {attributes['offsets']}; 6 and 3 are needed")
    if attributes["extents"][1] % attributes["members"]:
        raise ModelError(f"{attributes['extents'][1]} heads are no groups of {attributes['members']}")
    all_loops, starts = loops(attributes), (*attributes["offsets"], 0)
    for name, shape, start in zip(("q", "k", "v", "mask"), shapes, starts, strict=False):
        _check_reach(name, shape, all_loops[name], attributes[f"{name}_strides"], start)
    out: Shape = attributes["shape"]
    strides = zip(all_loops["y"], attributes["y_strides"], strict=False)
    ordered = sorted((pair for pair in strides if pair[0] > 1), key=lambda pair: -pair[1])
    dense = row_major_strides([size for size, _ in ordered])
    if math.prod(out) != math.prod(all_loops["y"]) or tuple(stride for _, stride in ordered) != dense:
        raise ModelError(f"strides {attributes['y_strides']} do not fill an output of shape {out}")
    return out


def _check_reach(name: str, shape: Shape, extents: Shape, strides: Shape, start: int) -> None:
    if len(strides) != 4 or min(*strides, start) < 0:
        raise ModelError(f"strides {strides} of {name} from {start} on; four, not negative, are needed")
    if start + sum((size - 1) * step for size, step in zip(extents, strides, strict=True)) >= math.prod(shape):
        raise ModelError(f"loops {extents} with strides {strides} leave {name} of shape {shape}")
