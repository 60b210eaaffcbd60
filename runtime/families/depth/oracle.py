"""Computes DepthToSpace and SpaceToDepth in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.families.depth.axes import Blocks
from runtime.families.depth.rows import OPERATORS
from runtime.graph import Array
from runtime.oracle import Compute, first_input
from runtime.shape_functions import Attributes


def _rearrangement(op: str) -> Compute:
    def compute(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        x = first_input(arguments)
        out = OPERATORS[op].shape([x.shape], attributes)
        blocks = Blocks.between(op, attributes["mode"], attributes["blocksize"], x.shape, out)
        return x.reshape(blocks.split).transpose(blocks.perm).reshape(out)

    return compute


COMPUTE: Mapping[str, Compute] = {op: _rearrangement(op) for op in OPERATORS}
