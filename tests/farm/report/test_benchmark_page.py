"""The page of a profile: figures of its pictures, one file that loads nothing, and models of a thousand operators."""

from __future__ import annotations

import dataclasses
import re

import pytest

from farm.report import benchmark_page as page
from farm.report.branch_lanes import lanes_of
from farm.report.device_tables import facts
from farm.rows.benchmark import BenchmarkRow, PlainRounds
from farm.rows.profile import operators
from farm.rows.status import Status
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
