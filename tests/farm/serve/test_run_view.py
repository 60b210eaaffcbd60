"""What the page of a run says of rows of every job."""

from farm.serve.run_view import MOST_ROWS, run_view
from tests.farm.rows.nightly_rows import nightly_case

BASE = {"time": "2026-11-21T02:00:00+00:00", "unit": "pixel", "model": "net", "runtime": "gpu", "status": "ok"}


def test_figures_of_each_job() -> None:
    tuned = {
        **BASE,
        "latency_ms": {"median": 12.345},
        "gain_percent": 18.2,
        "artifacts": ["build/a.bin", "build/b.bin"],
    }
    worse = {**BASE, "latency_ms": {"median": 12.0}, "ratio": 1.25}
    profiled = {**BASE, "without_statistics": {"avg_ms": 9.5}}
    failed = {**BASE, "status": "device_lost", "reason": "adb: offline"}
    view = run_view(iter([tuned, worse, profiled, failed]))
    assert [(line.latency, line.gain) for line in view.lines] == [
        ("12.35 ms", "18.2 % less time"),
        ("12.00 ms", "25.0 % more time"),
        ("9.500 ms", "–"),
        ("–", "–"),
    ]
    assert view.failed == 1 and view.files == ["build/a.bin", "build/b.bin"] and not view.operators


def test_the_slowest_operators_with_their_share() -> None:
    ops = [{"name": f"conv{at}", "type": "Conv2D", "avg_ms": float(at)} for at in range(1, 8)]
    ((title, slowest),) = run_view(iter([{**BASE, "ops": ops}])).operators
    assert title == "net (gpu) on pixel"
    assert [(op.name, op.share) for op in slowest][:2] == [("conv7", "25.0 %"), ("conv6", "21.4 %")]
    assert len(slowest) == 5


def test_very_many_rows_are_cut() -> None:
    row = nightly_case(unit="pixel", seed=1).model_dump(mode="json")
    view = run_view(iter([row] * (MOST_ROWS + 1)))
    assert view.is_cut and len(view.lines) == MOST_ROWS and view.lines[0].unit == "pixel"
