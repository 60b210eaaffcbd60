"""Scaled dot-product attention (geometry.py): its row, and what NumPy computes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime.families.attention.geometry import ATTRIBUTES, attention_shape, loops
from runtime.graph import Array
from runtime.operators.row import SOURCE, Operator

OPERATORS = {"Attention": Operator((3, 4), attention_shape, ATTRIBUTES, format=SOURCE)}


def compute_attention(arguments: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    """The output in its shape."""
    extents = loops(attributes)
    starts = (*attributes["offsets"], 0)
    named = zip(("q", "k", "v", "mask"), arguments, starts, strict=False)
    views = {
        name: _view(value, start, extents[name], attributes[f"{name}_strides"])
        for name, value, start in named
        if value is not None
    }
    views |= {name: views[name].repeat(attributes["members"], axis=1) for name in "kv"}
    scores = views["q"] @ views["k"].swapaxes(2, 3) * attributes["scale"]
    if "mask" in views:
        scores = scores + views["mask"]
    if attributes["causal"]:
        scores = np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf)
    with np.errstate(invalid="ignore"):  # infinity less itself, where all keys are hidden
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        weights = powers / powers.sum(axis=3, keepdims=True)
    y = (np.where(np.isnan(weights), 0, weights) if attributes["safe"] else weights) @ views["v"]
    out = np.empty(attributes["shape"], y.dtype)
    _view(out, 0, y.shape, attributes["y_strides"])[...] = y
    return out


def _view(value: Array, start: int, extents: Sequence[int], strides: Sequence[int]) -> Array:
    flat = np.ascontiguousarray(value).reshape(-1)[start:]
    return as_strided(flat, extents, [step * flat.itemsize for step in strides])


COMPUTE = {"Attention": compute_attention}
