"""The end of `farm run`: a sentence a row, a table where there are many, and what to do next."""

from typing import Any

import pytest

from farm.rows.latency import Latency
from farm.rows.run import LayerReport, Placement, RunRow, SampleReport, TensorComparison, TunedUse
from farm.rows.status import Status
from farm.tables import table
from farm.tables.run_end import MARKED, end_lines, end_tables, next_step

OUTPUT = TensorComparison(name="y", status=Status.OK)
STEADY = Latency.of([7.1, 7.2, 7.7])
TUNED = TunedUse(match="exact", entries=9, used=9)


def a_row(status: Status = Status.OK, **figures: Any) -> RunRow:
    """A row of a model that was compared and takes 7.2 ms on a GPU."""
    names = {"unit": "mi8", "soc": "sdm845", "device_model": "MI 8", "library": "lib", "model": "net", "runtime": "gpu"}
    known = {"latency_ms": STEADY, "outputs": (OUTPUT,), "sqnr_db": 87.4, "placement": Placement(gpu=31, cpu=0)}
    return RunRow.model_validate({**names, "status": status, **known, **figures})


MIXED = Placement(gpu=29, cpu=2, gpu_time_share=0.921, cpu_types=("Resize", "TopK"))
SENTENCES = {
    "right": (
        a_row(),
        "net is right on mi8 (gpu, SQNR 87 dB) and takes 7.20 ms (p90 7.70): 31 of 31 operators on the GPU",
    ),
    "tuned, partly on the CPU": (
        a_row(tuned=TUNED, placement=MIXED),
        "net is right on mi8 (gpu, SQNR 87 dB) and takes 7.20 ms (p90 7.70), tuned: 29 of 31 operators and 92 % of the "
        "time on the GPU, 2 on the CPU (Resize, TopK)",
    ),
    "not compared": (
        a_row(outputs=(), sqnr_db=None, runtime="cpu", placement=Placement(gpu=0, cpu=31)),
        "net runs on mi8 (cpu, outputs not compared) and takes 7.20 ms (p90 7.70): 31 of 31 operators on the CPU",
    ),
    "wrong": (
        a_row(Status.WRONG_RESULT, sqnr_db=3.2),
        "net is wrong on mi8 (gpu, SQNR 3 dB), and takes 7.20 ms (p90 7.70): 31 of 31 operators on the GPU",
    ),
    "unsteady": (
        a_row(latency_ms=Latency.of([0.5, 1.0, 4.0])),
        "net is right on mi8 (gpu, SQNR 87 dB) and takes 1.00 ms (p90 4.00; unsteady: 0.500 to 4.00): "
        "31 of 31 operators on the GPU",
    ),
    "samples": (
        a_row(samples=SampleReport(folder="f", count=20, wrong=0, mean={})),
        "net is right on mi8 (gpu, 20 of 20 samples, worst SQNR 87 dB) and takes 7.20 ms (p90 7.70): "
        "31 of 31 operators on the GPU",
    ),
}


@pytest.mark.parametrize(("row", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_a_row_is_a_sentence(row: RunRow, sentence: str) -> None:
    assert end_lines([row]) == [sentence]
    assert end_tables([row]) == []


def test_a_row_that_failed_is_told_by_its_reason_alone() -> None:
    row = a_row(Status.TIMEOUT, latency_ms=None, outputs=(), placement=None)
    assert end_lines([row]) == [] and next_step([row]) == ()


def test_many_rows_are_a_table_and_a_line() -> None:
    unsteady = a_row(latency_ms=Latency.of([0.5, 1.0, 4.0]))
    failed = a_row(Status.TIMEOUT, latency_ms=None, outputs=(), placement=None)
    rows = [a_row(), unsteady, a_row(outputs=()), a_row(Status.WRONG_RESULT), failed]
    assert end_lines(rows) == [MARKED, "5 rows: 2 right, 1 not compared, 1 wrong, 1 failed"]
    (shown,) = end_tables(rows)
    assert [cells[3:6] for cells in shown.rows] == [
        ["right, SQNR 87 dB", "7.20", "7.70"],
        ["right, SQNR 87 dB", "~1.00", "4.00"],
        ["not compared", "7.20", "7.70"],
        ["wrong, SQNR 87 dB", "7.20", "7.70"],
        ["timeout", "-", "-"],
    ]
    assert max(map(len, table.plain(shown).splitlines())) <= 80


def test_what_brings_most_comes_next() -> None:
    wrong = a_row(Status.WRONG_RESULT)
    assert next_step([a_row(), wrong]) == ("run", "--layers")
    assert next_step([wrong.model_copy(update={"layers": LayerReport(compared=3)})]) == ()
    assert next_step([a_row(), a_row(outputs=())]) == ("run", "--validate")
    assert next_step([a_row()]) == ("tune",)
    assert next_step([a_row(tuned=TUNED)]) == next_step([a_row(runtime="cpu")]) == ("benchmark",)
    other = {"engine": "onnxruntime"}
    assert next_step([wrong.model_copy(update=other)]) == next_step([a_row().model_copy(update=other)]) == ()
    assert next_step([a_row(runtime="cpu"), a_row().model_copy(update=other)]) == ("benchmark",)
