"""Typical sizes of movements between depth and space, for `farm opbench`."""

from __future__ import annotations

from runtime.operator_case import sized

OPBENCH_CASES = (
    sized("DepthToSpace", (1, 256, 56, 56), detail="2", blocksize=2, mode="CRD"),
    sized("SpaceToDepth", (1, 64, 112, 112), detail="2", blocksize=2, mode="DCR"),
)
