"""The use of multiply-add units by llvm-mca."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import ports
from tests.conftest import require

ASSEMBLY = """\
first:                                  // @first
.LBB0_1:                                // =>This Inner Loop Header: Depth=1
\tldr\tq4, [x0], #16
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tfmla\tv1.4s, v4.4s, v5.s[1]
\tfmla\tv2.4s, v4.4s, v5.s[2]
\tfmla\tv3.4s, v4.4s, v5.s[3]
\tsubs\tx1, x1, #1
\tb.ne\t.LBB0_1
.LBB0_2:
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tcbnz\tw2, .LBB0_1
second:
.LBB1_1:
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tcbnz\tw2, .LBB1_1
"""
LARGEST = {"cpu_lanes_product_generic_8": "product_5_2", "cpu_lanes_product_generic_16": "product_5_1"}


def test_loops_are_runs_that_end_where_they_began() -> None:
    (loop,) = ports.loops(ASSEMBLY)
    assert (loop.function, len(loop.lines), len(loop.products)) == ("first", 7, 4)
    assert ports.largest([loop, ports.Loop("first", loop.lines[:2])]) == [loop]


@pytest.mark.slow
def test_the_largest_tiles_fill_the_units_of_cortex_a76() -> None:
    require("llvm-mca", "" if shutil.which("llvm-mca") else "no llvm-mca: apt install llvm")
    found = {
        unit: ports.use("llvm-mca", "neoverse-n1", loop)
        for unit, assembly in ports.assemblies("arm64")
        for loop in ports.largest(list(ports.loops(assembly)))
        if LARGEST.get(unit) == loop.function
    }
    assert found.keys() == LARGEST.keys()
    assert min(found.values()) > 0.9, found
