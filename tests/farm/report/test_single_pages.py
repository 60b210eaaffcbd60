"""Pages that are one file: of a profile, of quantisation and of engines; figures, size, hostile names."""

import dataclasses
import re

import pytest

from farm.decision.fastest import standings
from farm.report import benchmark_page as page
from farm.report.branch_lanes import lanes_of
from farm.report.device_tables import facts
from farm.report.engines_page import beside_own, block_interval, engines_page, plot_of, ratios_over
from farm.report.quantize_page import band_of, quantize_page
from farm.rows.benchmark import BenchmarkRow, PlainRounds
from farm.rows.engines import EnginesRow
from farm.rows.latency import Latency
from farm.rows.profile import operators
from farm.rows.quantize import QuantizedLayer, QuantizeRow
from farm.rows.status import Status
from farm.tables.engines import in_order
from farm.tables.quantize import quantize_tables
from runtime.layout.storage import ROW_MAJOR, TensorStorage
from runtime.plan.plan import ContentKind, StoredTensor
from runtime.types import ElementType, Origin, OriginFormat
from tests.farm.report.nights import PHONES, night
from tests.farm.rows.test_profile import STEPS, TIMES, benchmark_row

HOSTILE = '</style><script>alert(1)</script><img src="http://x.example/a.png">'


def many(count: int, name: str = "op") -> BenchmarkRow:
    """A row of so many operators: every fifth ends a branch of three."""
    (op, *_) = benchmark_row().ops
    ops = [
        op.model_copy(
            update={
                **{
                    "name": f"{name}{at}",
                    "reads": tuple(max(at - back, 0) for back in (1, *([4] if at % 5 == 4 else []))) if at else (),
                },
                **{"start_ms": 0.1 * at, "last_ms": 0.09, "avg_ms": 0.1 + at / count, "moved_bytes": 1000 + 37 * at},
            }
        )
        for at in range(count)
    ]
    return benchmark_row().model_copy(
        update={"ops": tuple(ops), "round_ms": tuple(9 + at % 7 / 10 for at in range(100))}
    )


def test_branches_have_lanes_of_their_own_and_give_them_back() -> None:
    #  0 - 1 - 3, 0 - 2 - 3, 3 - 4
    found = lanes_of([[], [0], [0], [1, 2], [3]])
    assert list(found.lanes) == [0, 1, 0, 0, 0] and found.count == 2
    assert set(found.edges) == {(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)}


@pytest.mark.parametrize("reads", [[[number - 1] if number else [] for number in range(50)], [[]] * 50])
def test_a_chain_and_nodes_without_readers_need_one_lane(reads: list[list[int]]) -> None:
    assert lanes_of(reads).count == 1


def test_no_edge_runs_along_a_lane_that_another_node_has_meanwhile() -> None:
    graph = [list(op.reads) for op in many(200).ops]
    found = lanes_of(graph)
    for source, target in found.edges:
        between = range(source + 1, target)
        assert all(found.lanes[node] != found.lanes[source] for node in between)


def test_operators_tell_what_they_read_and_move() -> None:
    """A part that a step reads counts instead of the whole that it lies in."""
    whole = StoredTensor("x", ContentKind.ACTIVATION, stored(100), ElementType.F32, "buffer", "", (0,), (1, 2))
    part = dataclasses.replace(whole, name="x/part", storage=stored(10), part_of="x", written_by=(), read_by=(2,))
    weights = StoredTensor("w", ContentKind.WEIGHTS, stored(7), ElementType.F32, "buffer", "", (), (1,))
    found = operators(STEPS, TIMES, [whole, part, weights])
    assert [op.reads for op in found] == [(), (0,), (0,)]
    assert [op.moved_bytes for op in found] == [400, 428, 40]
    assert [(op.reads, op.moved_bytes) for op in operators(STEPS, TIMES)] == [((), 0)] * 3


def stored(elements: int) -> TensorStorage:
    return TensorStorage(Origin(OriginFormat.ND, (elements,)), ROW_MAJOR)


def test_the_rounds_fall_into_bins_of_one_width() -> None:
    bins = page.bins_of([1.0, 1.1, 1.2, 1.9, 2.0, 2.0, 3.0, 5.0, 5.0])
    assert [each.count for each in bins] == [6, 1, 2] and bins[0].height == 100.0
    assert page.bins_of([]) == [] and [each.count for each in page.bins_of([2.0] * 4)] == [4]


def test_no_dot_stands_above_the_roof() -> None:
    row = many(40)
    found = page.roofline_of(row.ops)
    assert found
    corners = [tuple(map(float, corner.split(","))) for corner in found.roof.split()]
    (left, ridge, _) = corners
    for x, y, *_ in found.points:
        slope = (ridge[1] - left[1]) / (ridge[0] - left[0])
        roof = left[1] + slope * (x - left[0]) if x < ridge[0] else ridge[1]
        assert y >= roof - 0.2
    assert page.roofline_of([op.model_copy(update={"macs": 0}) for op in row.ops]) is None


def test_the_timeline_is_one_round_wide() -> None:
    spans = page.spans_of(many(30).ops)
    assert spans[0].left == 0 and spans[-1].left + spans[-1].width == pytest.approx(100, abs=0.01)


def test_a_page_is_one_file_and_escapes_what_models_are_called() -> None:
    text = page.benchmark_page([many(5, HOSTILE), many(5)])
    assert "alert(1)</script>" not in text and "<img" not in text
    assert not re.search(r'(src|href)="(?!#|data:)', text) and "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids)) and 'id="model-2-op-4"' in text


def test_a_failed_row_says_why_and_no_rows_make_a_page() -> None:
    failed = BenchmarkRow(
        **{
            name: getattr(benchmark_row(), name)
            for name in ("unit", "soc", "device_model", "library", "model", "runtime")
        },
        status=Status.DEVICE_LOST,
        reason="adb: device offline",
    )
    assert "adb: device offline" in page.benchmark_page([failed])
    assert "0 profiles" in page.benchmark_page([])


def test_a_thousand_operators_make_a_page_of_a_megabyte() -> None:
    text = page.benchmark_page([many(1000)])
    assert len(text) < 1.5e6 and text.count('<li id="model-1-op-') == 1000


def test_many_rounds_are_thinned() -> None:
    rounds = PlainRounds.of([1e6], [float(at) for at in range(1, 5001)])
    assert len(rounds.round_ms) == 1000 and rounds.without_statistics and rounds.without_statistics.round == 5000


def test_figures_of_a_played_gpu_are_said_to_be_a_models() -> None:
    row = benchmark_row()
    played = row.model_copy(update={"fingerprint": {"gpu": "Mali-G72", "driver": "played; 2.0"}})
    note = "played: Mali-G72 is a model, no such device took these times"
    device = dataclasses.replace(night(1, PHONES[:1]).devices[0], fingerprint=played.fingerprint)
    assert ("Times", note) in list(facts(device))
    assert note in page.benchmark_page([played]) and "played:" not in page.benchmark_page([row])


def layer(**more: object) -> QuantizedLayer:
    given = {"low": -1.0, "high": 3.0, "lowest": -2.0, "highest": 6.0, "clipped_percent": 2.5, "histogram": (1, 4, 16)}
    return QuantizedLayer(name="conv", op="Conv", **{**given, **more})  # type: ignore[arg-type]


def row(*layers: QuantizedLayer) -> QuantizeRow:
    return QuantizeRow(
        **{"unit": "", "soc": "", "device_model": "", "library": "lib", "model": "net", "runtime": "onnxruntime"},  # type: ignore[arg-type]
        status=Status.OK,
        file="q.onnx",
        after_db=31.25,
        before_db=20.0,
        agreement_percent=99.0,
        samples=9,
        judged=8,
        layers=layers,
    )


def test_the_frame_is_the_range_on_what_was_seen() -> None:
    assert band_of(layer()) == (12.5, 62.5)
    assert band_of(layer(low=-4.0, high=60.0)) == (0.0, 100.0)
    assert band_of(layer(low=None, high=None)) == (0.0, 100.0)


def test_a_terminal_shows_the_layers_that_lose_most() -> None:
    layers = [layer(alone_db=float(40 - (at * 7) % 20)) for at in range(20)]
    (few,), (all_of_them,) = (list(quantize_tables([row(*layers)], is_long)) for is_long in (False, True))
    shown = [float(cells[few.columns.index("Alone dB")]) for cells in few.rows]
    assert max(shown) == 32.0 and len(shown) == 12 and shown != sorted(shown) and "12 of 20" in few.title
    assert len(all_of_them.rows) == 20 and all_of_them.title == "net"


def test_the_page_has_all_layers_and_loads_nothing() -> None:
    page = quantize_page([row(layer(), layer(in_float="kept by --keep", after_db=300.0))])
    assert "net: 1 of 2 layers are quantised, SQNR 31.2 dB (all: 20.0)" in page
    assert "left:12.5%;width:50.0%" in page and "2.50 %" in page and "kept by --keep" in page and "exact" in page
    assert [float(height) for height in re.findall(r'<i style="height:([\d.]+)%', page)[:3]] == [25.0, 50.0, 100.0]
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)


@pytest.mark.parametrize("member", ["name", "op", "in_float"])
def test_names_cannot_break_out(member: str) -> None:
    page = quantize_page([row(layer().model_copy(update={member: HOSTILE}))])
    assert "<script>alert" not in page and "x.example" not in re.sub(r"&#34;.*?&#34;", "", page)


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
def test_names_cannot_break_out_of_the_page_of_engines(member: str) -> None:
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
