"""What the charts are given."""

import dataclasses
import json
import math

import pytest

from farm.nightly.night import DeviceReport
from farm.report import charts
from farm.report.lines import sparkline
from farm.rows.device_state import DeviceState
from farm.rows.series import Metric, Point
from tests.farm.report import nights


@pytest.fixture(scope="module")
def device() -> DeviceReport:
    return nights.night(30).devices[0]


def test_history_has_levels_between_change_points(device: DeviceReport) -> None:
    chart = charts.history(device.cases[0].series[0])
    before, after, tonight = (level["value"] for level in chart["levels"])
    assert before / after == pytest.approx(1.06, abs=0.01)
    assert tonight / after == pytest.approx(1.098, abs=0.02)
    assert [len(chart[name]) for name in ("time", "value", "low", "high", "state", "note")] == [30] * 6
    assert chart["state"][-1] == "rerun" and "spoiled" in chart["state"]


def test_the_nights_of_one_day_stand_side_by_side_and_the_axis_says_the_hour() -> None:
    """A first week is often one day: places are those of the nights, and ticks tell the hours."""
    chart = charts.history(nights.slow_night().devices[0].cases[0].series[0])
    (level,) = chart["levels"]
    assert (level["from"], level["to"]) == (0, 8)
    ticks = chart["ticks"]
    assert [tick["at"] for tick in ticks] == [0, 2, 4, 6, 8]
    assert [tick["hour"] for tick in ticks] == ["02:00", "02:04", "02:08", "02:12", "02:16"]
    assert {tick["date"] for tick in ticks} == {"21 Nov 2025"}


def test_the_axis_of_many_nights_says_dates_and_changes_stand_at_their_night(device: DeviceReport) -> None:
    chart = charts.history(device.cases[0].series[0])
    assert [(tick["hour"], tick["date"]) for tick in chart["ticks"]][:2] == [("", "22 Nov 2025"), ("", "26 Nov 2025")]
    assert len(chart["ticks"]) == charts.MOST_TICKS and chart["ticks"][-1]["at"] == 29
    assert [change["at"] for change in chart["changes"]] == [10, 29]
    assert [(level["from"], level["to"]) for level in chart["levels"]] == [(0, 9), (10, 28), (29, 29)]


def test_a_packed_history_has_the_same_figures_in_half_of_the_bytes(device: DeviceReport) -> None:
    each = device.cases[0].series[0]
    whole, packed = charts.history(each), charts.packed_history(each)
    assert {name: packed[name] for name in ("run", "value", "ticks", "changes", "levels")} == {
        name: whole[name] for name in ("run", "value", "ticks", "changes", "levels")
    }
    assert packed["states"] == "".join(state[0] for state in whole["state"])
    assert len(json.dumps(packed)) < 0.6 * len(json.dumps(whole))


def test_nights_without_a_time_leave_the_steps_of_the_others_alone(device: DeviceReport) -> None:
    each = device.cases[0].series[0]
    points = [
        dataclasses.replace(point, time="" if place == 1 else point.time) for place, point in enumerate(each.points)
    ]
    first, unknown, both, next_one = charts.packed_history(dataclasses.replace(each, points=points))["seconds"][:4]
    assert first > 1e9 and unknown is None and both == 2 * next_one == 2 * 86400


def test_swaps_of_hardware_and_of_drivers() -> None:
    first = Point(1, "2026-11-19T02:00:00+00:00", (1.0,), identity="a", fingerprint="x")
    second = dataclasses.replace(first, run=2, identity="b")
    third = dataclasses.replace(second, run=3, fingerprint="y")
    unknown = dataclasses.replace(third, run=4, fingerprint="")
    found = [(point.run, what) for point, what in charts.swaps([first, second, third, unknown])]
    assert found == [(2, "another piece of hardware"), (3, "another driver, kernels or engine")]


def test_no_level_spans_a_swap(device: DeviceReport) -> None:
    each = device.cases[0].series[0]
    changes = {change.run for change in each.judgement.change_points}
    swapped = [dataclasses.replace(point, identity="b" if point.run > 20 else "a") for point in each.points]
    levels = charts.history(dataclasses.replace(each, points=swapped))["levels"]
    assert len(changes) == 2 and len(levels) == 4


def test_states_of_points() -> None:
    good = Point(1, "2026-11-21T02:00:00+00:00", (1.0,))
    assert charts.state_of(good) == "good"
    assert charts.state_of(dataclasses.replace(good, reruns=1)) == "rerun"
    assert charts.state_of(dataclasses.replace(good, spoiled="hot")) == "spoiled"
    assert charts.state_of(dataclasses.replace(good, runs=(), status="timeout")) == "failed"


def test_figures_that_are_none_do_not_reach_the_chart(device: DeviceReport) -> None:
    each = device.cases[0].series[0]
    points = [dataclasses.replace(point, runs=(math.nan, math.inf)) for point in each.points]
    chart = charts.history(dataclasses.replace(each, points=points))
    assert set(chart["value"]) == {None}
    assert chart["levels"] == []


def test_operators_before_and_after(device: DeviceReport) -> None:
    chart = charts.operators(device.cases[0])
    assert chart
    now, before = (dict(zip(chart["names"], chart[side], strict=True)) for side in ("now", "before"))
    assert len(chart["names"]) == charts.MOST_OPERATORS
    name = "conv_dw_7 (DepthwiseConv2D)"
    assert now[name] / before[name] > 4


def test_an_operator_that_is_gone_is_shown(device: DeviceReport) -> None:
    case = device.cases[0]
    assert case.row
    fewer = dataclasses.replace(case, row=case.row.model_copy(update={"ops": case.row.ops[:-1]}))
    assert ("softmax", "Softmax", None) in [row[:3] for row in charts.operator_times(fewer)]


def test_very_many_samples_are_thinned_with_their_ends(device: DeviceReport) -> None:
    case = device.cases[0]
    assert case.row
    block = case.row.blocks[0].model_copy(update={"samples": tuple(float(at) for at in range(5000))})
    chart = charts.distribution(dataclasses.replace(case, row=case.row.model_copy(update={"blocks": (block,)})))
    assert chart
    values = chart["groups"][0]["values"]
    assert (len(values), values[0], values[-1]) == (charts.MOST_SAMPLES, 0.0, 4999.0)


def test_spoiled_runs_are_a_group_of_their_own() -> None:
    case = next(case for case in nights.night(8).devices[2].cases if case.series[0].judgement.verdict == "spoiled")
    chart = charts.distribution(case)
    assert chart and [group["name"] for group in chart["groups"]] == ["Before", "Left out"]


def test_tuned_against_default_for_those_that_have_both(device: DeviceReport) -> None:
    chart = charts.tuned(device.cases)
    assert chart and len(chart["names"]) == 3 and set(chart["ratio"]) == {0.81}
    assert charts.tuned([]) is None


def test_a_unit_that_tells_nothing_has_no_chart() -> None:
    assert charts.states([("2026-11-21T02:00:00+00:00", DeviceState())]) is None


def test_sparklines() -> None:
    assert sparkline([1.0]) == "" and sparkline([math.nan, 1.0]) == ""
    assert sparkline([1.0, None, 3.0]) == "2.0,18.0 94.0,2.0"


def test_metrics_without_a_ratio_have_a_history_too(device: DeviceReport) -> None:
    memory = next(each for each in device.cases[0].series if each.key.metric == Metric.MEMORY)
    assert charts.history(memory)["unit"] == "bytes"
