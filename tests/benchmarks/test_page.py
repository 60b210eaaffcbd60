"""The benchmarks' page shows figures, judges them and names failures; the figures here are made up."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.figures import (
    ONNX_RUNTIME,
    ColdStart,
    Entrant,
    Interval,
    Machine,
    Report,
    Run,
    Start,
    Tuning,
)
from benchmarks.page import page
from farm.rows.latency import Latency
from farm.rows.status import Status

MACHINE = Machine(cpu="Abacus", cores=2, memory_bytes=2**34, system="Linux", versions={"farm": "1"})


def report(**members: Any) -> Report:
    known = {"command": "models.py", "date": "today", "machine": MACHINE, "drivers": ()}
    return Report(**known | {"wall_s": 60.0, "others_cores": 0.0} | members)


def entrant(name: str, ms: float, ratio: float, **members: Any) -> Entrant:
    interval = Interval(value=ratio, low=ratio - 0.1, high=ratio + 0.1)
    return Entrant(name=name, latency_ms=Latency.of([ms - 1, ms, ms + 1]), to_onnxruntime=interval, **members)


def line(text: str, start: str) -> str:
    return next(found for found in text.splitlines() if found.startswith(start))


def run(*entrants: Entrant, **members: Any) -> Run:
    reference = entrant(ONNX_RUNTIME, 10.0, 1.0)
    return Run(model="mobilenet_v1", driver="system", entrants=(reference, *entrants), **members)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.99, "1.0: reached"), (1.01, "1.0: missed")])
def test_ratios_come_first_and_the_aim_is_judged_by_the_tuned_one(ratio: float, verdict: str) -> None:
    text = page(report(runs=(run(entrant("default", 15.0, 0.5), entrant("tuned", 9.0, ratio)),)))
    row = line(text, "| mobilenet_v1 | system")
    assert f"{verdict} | 0.50 (0.40–0.60) | {ratio:.2f}" in row
    assert row.endswith("| 10.00 (9.50–10.50) |")


def test_a_wrong_result_shows_its_status_and_reason_instead_of_a_figure() -> None:
    wrong = entrant("tuned", 1.0, 0.1, status=Status.WRONG_RESULT, reason="prob: cosine 0.2")
    text = page(report(runs=(run(entrant("default", 15.0, 1.5), wrong),)))
    assert (
        line(text, "| mobilenet_v1 | system")
        == "| mobilenet_v1 | system | 1.0 | 1.50 (1.40–1.60) | wrong_result | 10.00 (9.50–10.50) |"
    )
    assert "- mobilenet_v1 on system: tuned: wrong_result: prob: cosine 0.2" in text


def test_a_model_that_failed_has_a_row_and_a_reason() -> None:
    text = page(report(runs=(Run(model="resnet50", driver="pypi", failures=("set-up: no OpenCL driver",)),)))
    assert line(text, "| resnet50") == "| resnet50 | pypi | 4.0 | - | - |"
    assert "- resnet50 on pypi: set-up: no OpenCL driver" in text


def test_cold_starts_are_compared_with_the_same_launches() -> None:
    starts = ColdStart(
        tuned=Start(seconds=(4.0, 3.0, 5.0), built=9),
        compiled=Start(seconds=(0.1, 0.3, 0.2), built=0),
        onnxruntime_s=0.05,
    )
    text = page(report(runs=(run(entrant("default", 15.0, 1.5), cold_start=starts),)))
    assert "| mobilenet_v1 | system | 20 | 4.00; 9 programs | 0.20 | 0.05 |" in text


def test_tuning_that_failed_shows_its_status() -> None:
    nothing = dict.fromkeys(("device_s", "wall_s", "trials", "launches", "launches_tuned"), 0)
    failed = Tuning(winograd=4, level="quick", status=Status.DEVICE_LOST, **nothing)
    text = page(report(runs=(run(tunings=(failed,)),)))
    assert "| mobilenet_v1, winograd 4 | system | device_lost | - |" in text


def test_figures_of_a_busy_machine_are_marked_and_not_judged() -> None:
    text = page(report(runs=(run(entrant("tuned", 9.0, 0.9)),), others_cores=0.8))
    assert "disturbed" in text
    assert "| mobilenet_v1 | system | 1.0 | 0.90" in text
    assert "disturbed" not in page(report())


def test_figures_survive_json() -> None:
    found = report(runs=(run(entrant("default", 15.0, 1.5)),))
    assert Report.model_validate_json(found.model_dump_json()) == found
