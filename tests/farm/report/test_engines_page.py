"""The page of engines beside each other."""

from __future__ import annotations

import re

import pytest

from farm.decision.fastest import standings
from farm.report.engines_page import beside_own, block_interval, engines_page, plot_of, ratios_over
from farm.rows.engines import EnginesRow
from farm.rows.latency import Latency
from farm.rows.status import Status
from farm.tables.engines import in_order

HOSTILE = '</style><script>alert(1)</script><img src="http://x.example/a.png">'
TURNS = (1.0, 1.02, 0.99, 1.01, 1.03, 0.98, 1.0, 1.01, 0.97, 1.04)


def rows_of(unit: str = "pixel", **levels_ms: float) -> list[EnginesRow]:
    """Engines whose blocks are of these levels, and one that crashed."""
    blocks = {
        name: tuple(level * (factor + 0.001 * at) for at, factor in enumerate(TURNS))
        for name, level in levels_ms.items()
    }
    identity = {"unit": unit, "soc": "sdm845", "device_model": "d", "library": "l", "model": "net", "runtime": "cpu"}
    found = [
        EnginesRow(
            **identity,  # type: ignore[arg-type]
            engine=name,
            status=Status.OK,
            sqnr_db=91.0,
            latency_ms=Latency.of(blocks[name]),
            init_ms=12.0,
            first_ms=3.5,
            file_bytes={"engine": 2**20, "model": 2**10},
            blocks_ms=blocks[name],
            standing=standing,
            settings={"turns": 10, "nodes": {"QNN": 12, "CPU": 3}},
        )
        for name, standing in standings(blocks).items()
    ]
    failed = EnginesRow(**identity, engine="crashes", status=Status.FAILED, reason="ended with SIGABRT")  # type: ignore[arg-type]
    return [failed, *found]


def test_where_another_engine_is_faster_than_farmrt_the_page_says_so() -> None:
    page = engines_page(rows_of(farmrt=2.0, onnxruntime=1.0, mnn=3.0))
    assert "net on pixel: onnxruntime (cpu) is the fastest of 3: farmrt (cpu) takes 2.00 times as long" in page
    assert re.search(
        r"Faster than farmrt \(cpu\): onnxruntime \(cpu\) takes 0\.50 of its time \(0\.50 to 0\.50\)\.", page
    )
    assert "crashes (cpu): failed: ended with SIGABRT" in page and "QNN 12, CPU 3" in page and "right, 91 dB" in page
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)


def test_a_winner_needs_its_interval() -> None:
    rows = [row for row in rows_of(farmrt=2.0, onnxruntime=1.0) if row.blocks_ms]
    short = [row.model_copy(update={"blocks_ms": row.blocks_ms[:3]}) for row in rows]
    own = next(row for row in short if row.engine == "farmrt")
    assert beside_own(own, ratios_over(own, short)) == "No other engine is surely faster than farmrt (cpu)."
    assert "surely faster" in engines_page(rows_of(farmrt=1.0, onnxruntime=2.0))
    assert beside_own(None, {}) == ""


def test_the_plot_is_one_axis_from_zero_with_all_blocks() -> None:
    rows = [row for row in in_order(rows_of(farmrt=2.0, onnxruntime=1.0)) if row.blocks_ms]
    plot = plot_of(rows)
    assert plot and [lane.name for lane in plot.lanes] == ["onnxruntime (cpu)", "farmrt (cpu)"]
    assert [lane.is_own for lane in plot.lanes] == [False, True] and plot.ticks[0] == (200.0, "0")
    for lane, row in zip(plot.lanes, rows, strict=True):
        assert len(lane.dots) == len(row.blocks_ms) and lane.low <= lane.middle <= lane.high <= 720
    zero, (fast, slow) = plot.ticks[0][0], (lane.middle for lane in plot.lanes)
    assert (slow - zero) / (fast - zero) == pytest.approx(2.0, abs=0.01)
    assert plot_of([]) is None


def test_the_interval_holds_the_middle_of_the_blocks() -> None:
    low, middle, high = block_interval(TURNS)
    assert min(TURNS) < low < middle < high < max(TURNS)


@pytest.mark.parametrize("member", ["engine", "model", "unit", "reason"])
def test_names_cannot_break_out(member: str) -> None:
    page = engines_page([row.model_copy(update={member: HOSTILE}) for row in rows_of(farmrt=1.0, onnxruntime=2.0)])
    assert "<script>alert" not in page and "<img" not in page


def test_each_model_and_unit_has_a_part_of_its_own() -> None:
    page = engines_page([*rows_of("pixel", farmrt=1.0), *rows_of("board", farmrt=1.0)])
    assert page.count('class="race"') == 2 and "net on board" in page and "no two engines took turns" in page
    assert "net by engine and unit" in page and "<b>" not in page, "nothing is the fastest of one"
    both = engines_page([*rows_of("pixel", farmrt=1.0, mnn=2.0), *rows_of("board", farmrt=3.0)])
    assert "<b>1.010 ms</b>" in both and "2.019 ms" in both
    assert "by engine and unit" not in engines_page(rows_of("pixel", farmrt=1.0))
    assert "Nothing was measured" in engines_page([])
