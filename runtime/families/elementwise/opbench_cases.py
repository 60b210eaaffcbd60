"""Typical sizes of element-wise operators, for `farm opbench`."""

from __future__ import annotations

import dataclasses

from runtime.operators.case import IMAGE, sized

OPBENCH_CASES = (
    dataclasses.replace(sized("Relu", IMAGE), conversions=True),
    sized("HardSwish", IMAGE),
    sized("Gelu", IMAGE),
    sized("Sigmoid", IMAGE),
    sized("Add", IMAGE, IMAGE),
    sized("Mul", IMAGE, (1, 64, 1, 1), detail="1x64x1x1"),
)
