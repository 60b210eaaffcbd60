"""Benchmark statistics, their eight tables and the trace, from made-up step times."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from farm.rows.benchmark import BenchmarkRow, Rounds
from farm.rows.profile import StepTimes, by_time, by_type, operators, profiled_rounds, round_sums_ns
from farm.rows.status import Status
from farm.tables.benchmark import MACS_COLUMNS, OPERATOR_COLUMNS, ROUND_COLUMNS, TYPE_COLUMNS, sections, trace_json
from farm.tables.table import plain
from runtime.plan.plan import ProfileInfo
from runtime.plan.records import StepKind


def step(name: str, op: str, macs: int = 0, kind: StepKind = StepKind.OPENCL, **shown: Any) -> Any:
    return SimpleNamespace(name=name, op=op, macs=macs, kind=kind, shown=ProfileInfo(**shown), note="")


def times(start: float, first: float, *ns: float) -> StepTimes:
    return StepTimes(start_ns=start, first_ns=first, ns=ns)


STEPS = [
    step("conv", "Conv2D", 6_000_000, filter_shape=(8, 3, 3, 3), output_shape=(1, 8, 9, 9), stride=(2, 2)),
    step("soft[max]", "Softmax", kind=StepKind.CPU, output_shape=(1, 8)),
    step("conv_1", "Conv2D", 2_000_000),
]
TIMES = [times(0, 3e6, 3e6, 1e6), times(1e6, 1e6, 1e6, 1e6), times(2e6, 6e6, 4e6, 2e6)]


def benchmark_row() -> BenchmarkRow:
    return BenchmarkRow(
        unit="host",
        soc="host",
        device_model="host",
        library="lib",
        model="net",
        runtime="gpu",
        status=Status.OK,
        warm_up=Rounds.of([50e6]),
        without_statistics=Rounds.of([8e6, 6e6]),
        **dict(profiled_rounds(STEPS, TIMES, [8.5e6, 4.5e6])),
    )


def test_rounds_are_in_milliseconds() -> None:
    rounds = Rounds.of([4e6, 1e6, 1e6])
    assert rounds.model_dump() == {
        "round": 3,
        "first_ms": 4.0,
        "curr_ms": 1.0,
        "min_ms": 1.0,
        "max_ms": 4.0,
        "avg_ms": 2.0,
        "std_ms": pytest.approx(2**0.5),
    }


def test_operators_share_the_total() -> None:
    ops = operators(STEPS, TIMES)
    assert [op.avg_ms for op in ops] == [2.0, 1.0, 3.0]
    assert [op.percent for op in ops] == pytest.approx([100 / 3, 100 / 6, 50])
    assert ops[-1].cdf_percent == pytest.approx(100)
    assert [op.device for op in ops] == ["gpu", "cpu", "gpu"]
    assert ops[0].gmacps == pytest.approx(3.0)
    assert (ops[1].gmacps, ops[2].start_ms, ops[2].first_ms, ops[2].last_ms) == (0.0, 2.0, 6.0, 2.0)


def test_by_time_cumulates_in_its_own_order_and_is_limited() -> None:
    ordered = by_time(operators(STEPS, TIMES), limit=2)
    assert [op.name for op in ordered] == ["conv_1", "conv"]
    assert [op.cdf_percent for op in ordered] == pytest.approx([50, 50 + 100 / 3])


def test_types_sum_their_operators() -> None:
    convolution, softmax = by_type(operators(STEPS, TIMES), rounds=2)
    assert (convolution.type, convolution.count, convolution.called_times) == ("Conv2D", 2, 4)
    assert convolution.avg_ms == pytest.approx(5.0) and convolution.macs == 8_000_000
    assert convolution.gmacps == pytest.approx(1.6)
    assert softmax.cdf_percent == pytest.approx(100)


def test_sums_run_over_the_steps_of_each_round() -> None:
    assert round_sums_ns(TIMES) == [8e6, 4e6]


def test_the_row_relates_the_sum_to_the_wall_time() -> None:
    row = benchmark_row()
    assert row.sum_to_wall == pytest.approx((8 / 8.5 + 4 / 4.5) / 2)
    assert row.macs is not None and row.macs.total == 8_000_000
    assert row.macs.first_gmacps == pytest.approx(1.0)
    assert row.macs.avg_gmacps == pytest.approx(8 / 6)
    assert row.ops_summary is not None and row.ops_summary.avg_ms == 6.0


def test_steps_without_time_divide_by_nothing() -> None:
    (op,) = operators([STEPS[0]], [times(0, 0, 0)])
    assert (op.percent, op.gmacps) == (0.0, 0.0)


def test_there_are_eight_sections_in_order_with_their_columns() -> None:
    tables = list(sections(benchmark_row()))
    assert [table.title for table in tables] == [
        "Warm Up",
        "Run without statistics",
        "Run with statistics",
        "Sort by Run Order",
        "Sort by Computation Time",
        "Stat by Op Type",
        "Stat by MACs(Multiply-Accumulation)",
        "Summary of Ops' Stat",
    ]
    expected = [ROUND_COLUMNS] * 3 + [OPERATOR_COLUMNS] * 2 + [TYPE_COLUMNS, MACS_COLUMNS, ROUND_COLUMNS]
    assert [table.columns for table in tables] == expected
    assert all(len(cells) == len(table.columns) for table in tables for cells in table.rows)


def test_run_order_as_plain_text() -> None:
    text = plain(list(sections(benchmark_row()))[3])
    lines = text.splitlines()
    assert lines[0] == "Sort by Run Order"
    assert "[2,2]" in lines[4] and "[8,3,3,3]" in lines[4] and lines[4].endswith("| conv")
    assert len({line.index("|") for line in lines if "|" in line}) == 1


def test_a_failed_row_has_no_sections() -> None:
    row = benchmark_row().model_copy(
        update=dict.fromkeys(("warm_up", "without_statistics", "with_statistics", "macs", "ops_summary")) | {"ops": ()}
    )
    assert list(sections(row)) == []


def test_the_trace_has_a_complete_event_for_each_operator() -> None:
    document = json.loads(trace_json([benchmark_row(), benchmark_row()]))
    events = document["traceEvents"]
    complete = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert [event["name"] for event in complete] == ["conv", "soft[max]", "conv_1"]
    assert [(event["ts"], event["dur"]) for event in complete] == [(0, 1000), (1000, 1000), (2000, 2000)]
    assert complete[0]["args"]["macs"] == 6_000_000
    names = {event["args"]["name"] for event in events if event["ph"] == "M" and event["pid"] == 2}
    assert names == {"net on host (gpu)", "cpu", "gpu"}
    assert {event["pid"] for event in events} == {1, 2}
