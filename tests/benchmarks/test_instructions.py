"""Counting instructions by qemu's log."""

from __future__ import annotations

import pytest

from benchmarks import instructions
from runtime.lowering.lower import lower
from runtime.target import Target
from runtime.types import Precision
from tests.conftest import require
from tests.native import qemu
from tests.runtime.graphs import GraphMaker

BLOCK_A = b"IN: main\n0x00401000:  d2800000  mov\n0x00401004:  d65f03c0  ret\n\n"
BLOCK_B = b"IN: \n0x00402000:  d65f03c0  ret\n\n"
TRACE = b"Trace 0: 0x7f0 [00000000/%016x/00000000/00000000] \n"


def log_of(*parts: bytes) -> list[bytes]:
    return b"".join(parts).splitlines(keepends=True)


def test_each_entry_counts_its_block() -> None:
    enter_a, enter_b = TRACE % 0x401000, TRACE % 0x402000
    assert instructions.count(log_of(BLOCK_A, enter_a, BLOCK_B, enter_b, enter_a, enter_a)) == 3 * 2 + 1


def test_a_block_that_is_translated_again_counts_as_it_was_before() -> None:
    longer = BLOCK_A.replace(b"\n\n", b"\n0x00401008:  d503201f  nop\n\n")
    assert instructions.count(log_of(BLOCK_A, TRACE % 0x401000, longer, TRACE % 0x401000)) == 2 + 3


@pytest.mark.slow
def test_a_round_on_arm64() -> None:
    require("qemu", qemu.missing("arm64"))
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 64, 6, 6), 64, k=1))
    plan = lower(graph, Target("any", "arm64", memory="cpu", precision=Precision.FP16))
    floats, halves = (instructions.of_a_round("arm64", plan, "neoverse-n1", isa) for isa in ("generic", "fp16"))
    assert 1_000 < halves < floats < 10_000_000
