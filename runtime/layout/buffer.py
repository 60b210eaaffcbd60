"""Packed rows of weights in buffers."""

from runtime.graph import Array
from runtime.layout.arrangement import Arrangement


def packed_rows(block: int) -> Arrangement:
    """Weights [groups, rows, cols] as [groups][ceil(rows/block)][cols][block], zero-filled.

    So a kernel that computes `block` neighbouring rows reads their weights of one column with one vector load.
    """
    return Arrangement("grc", "gRcr", block)


def pack_rows(weights: Array, block: int) -> Array:
    """Weights [groups, rows, cols] in `packed_rows`, one-dimensional."""
    return packed_rows(block).pack(weights).reshape(-1)
