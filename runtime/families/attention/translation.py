"""Attention as one launch, which reads heads and writes them wherever they lie; and the sizes to measure."""

from collections.abc import Mapping
from typing import Any

from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value
from runtime.operators.case import OperatorCase, sized
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_EXTENTS = ("batch", "heads", "queries", "keys", "depth", "values")


def lower_attention(builder: Builder, node: Node) -> None:
    """Lowers Attention, on row-major tensors; to nothing where a query's only key gives its value as it lies."""
    if _is_value(node.attrs) and len(node.inputs) == 3:
        v, shape, offset = builder.read(node.inputs[2], Storage.FLAT), node.attrs["shape"], node.attrs["offsets"][2]
        builder.alias(node.output, Value(node.output, shape, Storage.FLAT, v.element, 0, v, offset))
        return
    values = [builder.read(name, Storage.FLAT) for name in node.inputs]
    q, k, v = (value.from_element(offset) for value, offset in zip(values, node.attrs["offsets"], strict=False))
    y = builder.write(node.output, Storage.FLAT)
    tensors: Tensors = {"q": q, "k": k, "v": v, "mask": values[3] if len(values) > 3 else q, "y": y}
    dims = dict(zip(_EXTENTS, node.attrs["extents"], strict=True))
    for name in ("q", "k", "v", "mask", "y"):
        dims |= {f"{name[0]}s{axis}": step for axis, step in enumerate(node.attrs[f"{name}_strides"])}
    masked = (1 + node.attrs["safe"]) * (len(values) > 3)
    dims |= {"masked": masked, "causal": int(node.attrs["causal"]), "members": node.attrs["members"]}
    floats, shown = {"scale": node.attrs["scale"]}, ProfileInfo(y.shape)
    defines = {"DEPTH": dims["depth"], "VALUES": dims["values"]}
    builder.launch("attention", node.name, "Attention", tensors, dims, floats, defines, shown)


def _is_value(attrs: Mapping[str, Any]) -> bool:
    """Whether the output is v, from its offset on: the only key of the only query has all weight."""
    batch, heads, queries, keys, _, values = attrs["extents"]
    strides = zip((batch, heads, 1, values), attrs["v_strides"], attrs["y_strides"], strict=True)
    alike = all(size == 1 or own == out for size, own, out in strides)
    return queries == keys == attrs["members"] == 1 and alike


BUFFER_LOWERINGS = {"Attention": lower_attention}


def _decoding(keys: int, groups: int, members: int, depth: int) -> OperatorCase:
    """One place; as many heads as a group has members read the same keys and values, and are its queries."""
    row, kept = groups * depth, (1, keys, groups * depth)
    x = (1, 1, members * row)
    attrs: dict[str, Any] = {"extents": (1, groups, members, keys, depth, depth), "shape": x, "offsets": (0, 0, 0)}
    attrs |= dict.fromkeys(("q_strides", "y_strides"), (0, members * depth, depth, 1))
    attrs |= dict.fromkeys(("k_strides", "v_strides"), (0, depth, row, 1))
    attrs |= {"mask_strides": (0, 0, 0, 0), "scale": depth**-0.5, "members": 1, "causal": False, "safe": False}
    return sized("Attention", x, kept, kept, detail=f"{members * groups}_decode", **attrs)


def attention_case(places: int, heads: int, depth: int, causal: bool = False) -> OperatorCase:
    """Heads side by side in each place."""
    x, row = (1, places, heads * depth), heads * depth
    attrs: dict[str, Any] = {"extents": (1, heads, places, places, depth, depth), "shape": x, "offsets": (0, 0, 0)}
    attrs |= dict.fromkeys(("q_strides", "k_strides", "v_strides", "y_strides"), (places * row, depth, row, 1))
    attrs |= {"mask_strides": (0, 0, 0, 0), "scale": depth**-0.5, "members": 1, "causal": causal, "safe": False}
    return sized("Attention", x, x, x, detail=f"{heads}{'_causal' if causal else ''}", **attrs)


OPBENCH_CASES = (
    attention_case(197, 3, 64),
    attention_case(128, 4, 64),
    attention_case(128, 12, 64, causal=True),
    _decoding(513, 2, 4, 64),
)
