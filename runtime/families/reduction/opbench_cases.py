"""Typical sizes of reductions, for `farm opbench`."""

from __future__ import annotations

from runtime.operator_case import sized

OPBENCH_CASES = (sized("ReduceMean", (1, 1024, 7, 7), axes=(2, 3), keepdims=True),)
