"""Faults that are planted into a kernel of the table are found, and reported with kernel, variant and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.oclgrind.simulator import execute

pytestmark = pytest.mark.slow

BARRIER = "\n        barrier(CLK_LOCAL_MEM_FENCE);"
GROUP = "BLOCK8_VECTOR4_PIXELS4_FMA0_LOCAL32"
# Memory, kernel, variant, what the source says, what it says instead; and words of the report, in this order.
FAULTS = {
    "write beyond a buffer": (
        ("buffer", "unary", "VECTOR4_ITEMS1", "y + i3 * ys3, ys3, d3 - i3", "y + i3 * ys3, ys3, d3"),
        ("unary (buffer), VECTOR4_ITEMS1, ", "Invalid write of size 4 in global memory; ", "buffer/prelude.cl:"),
    ),
    "read beyond a buffer": (
        ("buffer", "lrn", "VECTOR8", "load_some(x + channel, exist)", "LOAD_VECTOR(x + channel)"),
        (
            "lrn (buffer), VECTOR8, lrn 5, FP16_STORAGE",
            "Invalid read of size 16 in global memory; normalization/lrn.buffer.cl:",
            ": const floats v = load_some(",
        ),
    ),
    "race in local memory": (
        ("buffer", "conv1x1", GROUP, f"% VECTORS * VECTOR);\n#endif{BARRIER}", "% VECTORS * VECTOR);\n#endif\n"),
        (GROUP, "Read-write data race in local memory; buffer/prelude.cl:", ": weight[k] = stage["),
    ),
    "barrier that some miss": (
        ("buffer", "conv1x1", GROUP, "IS_IDLE(first, pixels) false", "IS_IDLE(first, pixels) ((first) >= (pixels))"),
        (GROUP, "Work-group divergence detected (barrier); buffer/prelude.cl:", ": barrier(CLK_LOCAL"),
    ),
    "write beside an image": (
        ("image", "unary", "plain", "w >= width", "false"),
        ("unary (image), plain, ", "wrong: columns beside the tensor were written"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    fault, words = FAULTS[name]
    failures = execute(tmp_path, *fault)["failures"]
    pattern = ".*".join(map(re.escape, words))
    assert any(re.search(pattern, failure) for failure in failures), "\n".join(failures[:20])
