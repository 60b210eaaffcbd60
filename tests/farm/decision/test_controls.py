"""What the A/A controls say of the farm's own noise."""

import dataclasses

import pytest
from scipy import special

from farm.decision.controls import ControlCount, ControlReport, control_report, count_alarms, poisson_interval
from farm.rows.series import Case, Metric, Point, SeriesKey
from tests.farm.decision.histories import STEADY, history, night


def series(points: list[Point], metric: Metric = Metric.LATENCY) -> dict[SeriesKey, list[Point]]:
    return {SeriesKey(Case("u", "l", "m", "r", "d"), metric): points}


def estimate_false_alarms(found: dict[SeriesKey, list[Point]]) -> ControlReport | None:
    return control_report(count_alarms(points, key.metric) for key, points in found.items())


def test_steady_controls_give_no_alarm_and_an_upper_bound() -> None:
    report = estimate_false_alarms(series(history(40)))
    assert report
    assert (report.alarms, report.comparisons) == (0, 28)
    assert report.expected_alarms_per_week == report.low == 0
    assert report.high == pytest.approx(3.689 * 7 / 28, rel=1e-3)


def test_controls_whose_arms_differ_count_as_false_alarms() -> None:
    def uneven(point: Point) -> Point:
        runs = (run * (1.3 if arm == "b" else 1) for run, arm in zip(point.runs, point.arms, strict=True))
        return dataclasses.replace(point, runs=tuple(runs))

    nights = [*history(30), *(uneven(point) for point in history(40)[30:])]
    quiet, loud = estimate_false_alarms(series(history(40))), estimate_false_alarms(series(nights))
    assert quiet and loud
    assert loud.expected_alarms_per_week >= quiet.expected_alarms_per_week


def test_a_real_level_shift_is_no_false_alarm() -> None:
    report = estimate_false_alarms(series([*history(30), *(night(run, 12.0) for run in range(30, 60))]))
    assert report
    assert report.alarms == 0


def test_of_thousands_of_series_one_comparison_each_suffices() -> None:
    """They show that not one in a hundred series gives a false alarm a week; of a few series they show nothing."""
    many, few = (control_report([ControlCount(1, 0)] * count) for count in (10_000, 50))
    assert many and many.suffices and many.high > 20
    assert few and not few.suffices


def test_too_few_nights_give_no_estimate() -> None:
    assert estimate_false_alarms({}) is None
    assert estimate_false_alarms(series([])) is None
    assert estimate_false_alarms(series(history(5))) is None
    assert estimate_false_alarms(series(history(40), Metric.SQNR)) is None
    odd = [dataclasses.replace(STEADY, run=run, runs=(float("nan"),) * 2, arms=("a", "b")) for run in range(20)]
    assert estimate_false_alarms(series(odd)) is None


@pytest.mark.parametrize("count", [0, 1, 7])
def test_the_poisson_interval_leaves_2_5_percent_on_either_side(count: int) -> None:
    low, high = poisson_interval(count)
    assert special.pdtr(count, high) == pytest.approx(0.025)
    assert low == 0 if count == 0 else special.pdtrc(count - 1, low) == pytest.approx(0.025)
