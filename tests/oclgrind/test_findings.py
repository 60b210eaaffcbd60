"""A finding in Oclgrind's log is told with the line of our source."""

from __future__ import annotations

from runtime.kernels.source import source_files
from runtime.kernels.spec import MemoryType
from runtime.kernels.table import find_kernel
from tests.oclgrind.findings import findings, place

KERNEL = find_kernel("unary", MemoryType.BUFFER)
ENTITY = "\tEntity: Global(7,0,0) Local(3,0,0) Group(1,0,0)\n\t  store float 1.000000e+00, align 4\n"


def block(line: int, address: str) -> str:
    where = f"\tAt line {line} (column 65) of input.cl:\n\t  (source not available)\n\t\n\n"
    return f"Invalid write of size 4 at global memory address {address}\n\tKernel: unary\n{ENTITY}{where}"


def test_a_line_of_the_program_is_told_by_its_file() -> None:
    before = sum(path.read_text().count("\n") + 1 for path in source_files(KERNEL)[:-1])
    text = source_files(KERNEL)[-1].read_text().split("\n")
    assert place(KERNEL, 1).startswith("kernels/prelude.cl:1: // What every kernel may use.")
    assert place(KERNEL, before + 4) == f"buffer/unary.cl:4: {text[3]}"


def test_the_same_finding_is_told_once() -> None:
    log = block(3, "0x2000000000020") + block(3, "0x2000000000024") + block(5, "0x2000000000020")
    first, second = findings(log, KERNEL)
    assert first == f"Invalid write of size 4 in global memory; {place(KERNEL, 3)}"
    assert second.endswith(place(KERNEL, 5))


def test_an_empty_log_has_no_finding() -> None:
    assert not findings("\n\n", KERNEL)
