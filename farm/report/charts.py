"""What the charts show, as plain data: the pages carry it, assets/charts.js draws it."""

import functools
import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from operator import attrgetter
from typing import Any

import numpy as np

from farm.decision.operator_changes import Times, summed_times
from farm.nightly.night import CaseReport, SeriesReport
from farm.nightly.words import case_title
from farm.report.figures import NONE, all_six_digits, commit, interval, moment, percent, six_digits, utc
from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, NightlyRow
from farm.rows.series import Point, trimmed_mean
from farm.rows.status import Status
from farm.safe_text import word
from runtime.statistics.medians import Array, trimmed_means

Chart = dict[str, Any]
MOST_SAMPLES = 400
MOST_OPERATORS = 15
MOST_STATES = 2000
MOST_TICKS = 8
OK = str(Status.OK)  # an enumeration's member takes longer to find


def history(report: SeriesReport) -> Chart:
    """A series night by night, with its levels between the change points.

    The axis counts nights: the place of each in this list is where it stands, whatever the time between them, since
    the first week may be one day and a farm may rest for a month. `ticks` say when some of them were.
    """
    points = list(report.points)
    return _of_history(
        report,
        points,
        {"run": [point.run for point in points], "time": [_time(point.time) for point in points]},
        {"state": [state_of(point) for point in points], "note": [_note(point) for point in points]},
    )


def packed_history(report: SeriesReport) -> Chart:
    """The same in half of the bytes, for pages: `whole` of assets/rows.js makes the other of it.

    `seconds` are those since the night before with a time; a commit is 0 where it is that of the night before; `states`
    has a letter each night; `low` and `high` are None where they are the figures.
    """
    points = list(report.points)
    commits = [commit(point.commit) for point in points]
    odd = [place for place, point in enumerate(points) if not _is_plain(point)]
    states = ["g"] * len(points)
    for place in odd:
        states[place] = state_of(points[place])[0]
    chart = _of_history(
        report,
        points,
        {"run": [point.run for point in points], "seconds": _steps([_second(point.time) for point in points])},
        {
            "states": "".join(states),
            "commits": [commits[0], *(0 if new == old else new for old, new in pairwise(commits))] if commits else [],
            "degrees": _all_degrees(points),
            "remarks": {str(place): text for place in odd if (text := ", ".join(_remarks(points[place])))},
        },
    )
    return chart | {name: None for name in ("low", "high") if chart[name] == chart["value"]}


def _of_history(report: SeriesReport, points: Sequence[Point], nights: Chart, remarks: Chart) -> Chart:
    values, low, high = map(all_six_digits, _figures([point.runs for point in points]))
    swapped = [point for point, _ in swaps(points)]
    breaks = sorted({change.run for change in report.judgement.change_points} | {point.run for point in swapped})
    return {
        "kind": "history",
        "title": report.key.metric.info.title,
        "unit": report.key.metric.info.unit,
        **nights,
        "value": values,
        "low": low,
        "high": high,
        **remarks,
        "ticks": _ticks(points),
        "changes": [
            {"at": _place(points, change.run), "text": percent(change.ratio)}
            for change in report.judgement.change_points
        ],
        "swaps": [_place(points, point.run) for point in swapped],
        "levels": list(_levels(points, values, breaks)),
        "baseline": six_digits(report.judgement.baseline),
    }


def _steps(seconds: Sequence[int | None]) -> list[int | None]:
    """Each less the one before it that is known."""
    steps, last = [], 0
    for second in seconds:
        steps.append(None if second is None else second - last)
        last = last if second is None else second
    return steps


def _figures(nights: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """Each night's figure, its least and its largest measurement; NaN where there is none."""
    counts = np.array(list(map(len, nights)), np.int64)
    values = np.array(list(zip_longest(*nights, fillvalue=math.nan)), np.float64).T
    if not values.size or np.isfinite(values).sum() < counts.sum():
        return _odd_figures(nights)
    ordered = np.sort(values, axis=1)  # NaN come last
    high = ordered[np.arange(len(nights)), np.maximum(counts - 1, 0)]
    with np.errstate(invalid="ignore"):  # a night without measurements
        return trimmed_means(ordered, counts), ordered[:, 0], high


def _odd_figures(nights: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """The same where some measurements are no numbers."""
    figures = [(trimmed_mean(runs), min(runs), max(runs)) if runs else (math.nan,) * 3 for runs in nights]
    value, low, high = np.array(figures, np.float64).reshape(-1, 3).T
    return value, low, high


def swaps(points: Sequence[Point]) -> list[tuple[Point, str]]:
    """The first points of other hardware, or of another driver or engine, and what is new."""
    if len({point.identity for point in points}) < 2 and len({point.fingerprint for point in points}) < 2:
        return []
    changes = []
    for before, after in pairwise(points):
        if before.identity != after.identity:
            changes.append((after, "another piece of hardware"))
        elif before.fingerprint != after.fingerprint and before.fingerprint and after.fingerprint:
            changes.append((after, "another driver, kernels or engine"))
    return changes


def _is_plain(point: Point) -> bool:
    """Whether nothing is to be said of a night but its figure."""
    return point.status == OK and not point.spoiled and not point.reruns and bool(point.runs)


def state_of(point: Point) -> str:
    """`failed`, `spoiled` (some of it at least), `rerun` or `good`."""
    if point.status != Status.OK:
        return "failed"
    if point.spoiled or not point.runs:
        return "spoiled"
    return "rerun" if point.reruns else "good"


def _note(point: Point) -> str:
    """What stands beside a point that is pointed at."""
    degrees = _degrees(point)
    parts = [
        f"run {point.run}",
        point.commit and f"commit {commit(point.commit)}",
        "" if degrees is None else f"{degrees} °C",
        *_remarks(point),
    ]
    return ", ".join(filter(None, parts))


def _degrees(point: Point) -> int | None:
    celsius = point.temperature_c
    return None if celsius is None or not math.isfinite(celsius) else round(celsius)


def _all_degrees(points: Sequence[Point]) -> list[int | None] | None:
    """Those of each night; None where no night has any."""
    if all(point.temperature_c is None for point in points):
        return None
    degrees = list(map(_degrees, points))
    return None if all(each is None for each in degrees) else degrees


def _remarks(point: Point) -> list[str]:
    """What few nights have."""
    parts = (
        f"{point.reruns} re-runs" if point.reruns else "",
        point.spoiled and f"left out: {word(point.spoiled)}",
        "" if point.status == Status.OK else f"{point.status}: {word(point.reason)}",
    )
    return [part for part in parts if part]


def _levels(points: Sequence[Point], figures: Sequence[float | None], breaks: Sequence[int]) -> Iterator[Chart]:
    """The median of each stretch between the runs that change points and swaps begin with."""
    edges = [0, *(_place(points, run) for run in breaks), len(points)]
    for first, after in pairwise(edges):
        within = zip(points[first:after], figures[first:after], strict=True)
        values = [value for point, value in within if value is not None and not point.spoiled]
        if values:
            yield {"from": first, "to": after - 1, "value": statistics.median(values)}


def _place(points: Sequence[Point], run: int) -> int:
    """Where the first night of a run or after it stands."""
    return bisect_left(points, run, key=attrgetter("run"))


def _ticks(points: Sequence[Point]) -> list[Chart]:
    """What the axis says below some of the nights, the newest among them: the date, and the hour where dates repeat."""
    places = range(len(points) - 1, -1, -max(1, math.ceil(len(points) / MOST_TICKS)))[::-1]
    moments = [utc(points[place].time) for place in places]
    dates = [when.date() if when else None for when in moments]
    by_hour = len(set(dates)) < len(dates)
    return [
        {
            "at": place,
            "hour": f"{when:%H:%M}" if when and by_hour else "",
            "date": f"{when.day} {when:%b %Y}" if when else f"run {points[place].run}",
        }
        for place, when in zip(places, moments, strict=True)
    ]


def distribution(case: CaseReport) -> Chart | None:
    """Latencies of tonight and of before; None where nothing was measured."""
    groups = [
        ("Tonight", _samples(case.row, spoiled=False)),
        ("Before", _samples(case.before, spoiled=False)),
        ("Left out", _samples(case.row, spoiled=True)),
    ]
    shown = [{"name": name, "values": values} for name, values in groups if values]
    return {"kind": "distribution", "unit": "ms", "groups": shown} if shown else None


def _samples(row: NightlyRow | None, *, spoiled: bool) -> list[float]:
    """Samples of a row's good or spoiled blocks, thinned out by rank where they are very many."""
    blocks: Sequence[Block] = row.blocks if row else ()
    samples = sorted(
        sample
        for block in blocks
        if bool(block.throttled) == spoiled
        for sample in block.samples
        if math.isfinite(sample)
    )
    return samples if len(samples) <= MOST_SAMPLES else _thinned(samples, MOST_SAMPLES)


def _thinned(values: Sequence[Any], count: int) -> list[Any]:
    """So many of them, evenly spread, the first and the last among them."""
    return [values[round(number * (len(values) - 1) / (count - 1))] for number in range(count)]


def operators(case: CaseReport) -> Chart | None:
    """The operators that take or took most time, tonight and before."""
    compared = operator_times(case)[:MOST_OPERATORS]
    if not compared:
        return None
    return {
        "kind": "operators",
        "unit": "ms",
        "names": [word(f"{name} ({kind})", 48) for name, kind, _, _ in compared],
        "now": [six_digits(now) for _, _, now, _ in compared],
        "before": [six_digits(before) for _, _, _, before in compared],
    }


def operator_times(case: CaseReport) -> list[tuple[str, str, float | None, float | None]]:
    """Name, type, average milliseconds tonight and before (None: not there) of all operators, the longest first."""
    now, before = _by_name(case.row), _by_name(case.before)
    rows = [
        (name, kind, now.get((name, kind)), before.get((name, kind))) for name, kind in dict.fromkeys([*now, *before])
    ]
    return sorted(rows, key=lambda row: -max(row[2] or 0.0, row[3] or 0.0))


def _by_name(row: NightlyRow | None) -> Times:
    return summed_times((op.name, op.type, op.avg_ms) for op in row.ops) if row else {}


def tuned(cases: Sequence[CaseReport]) -> Chart | None:
    """Time with the tuned files over that without, for each case that has both."""
    rows = [(case, case.row) for case in cases if case.row and case.row.tuned_ratio is not None]
    if not rows:
        return None
    cis = [row.tuned_ratio_ci or (row.tuned_ratio, row.tuned_ratio) for _, row in rows]
    return {
        "kind": "tuned",
        "names": [word(case_title(case.case), 48) for case, _ in rows],
        "ratio": [six_digits(row.tuned_ratio) for _, row in rows],
        "low": [six_digits(low) for low, _ in cis],
        "high": [six_digits(high) for _, high in cis],
        "note": [
            f"{percent(row.tuned_ratio)} ({interval(*row.tuned_ratio_ci or (None, None)) or NONE})" for _, row in rows
        ],
    }


def states(trace: Sequence[tuple[str, DeviceState]]) -> Chart | None:
    """Temperature and clocks over the run; None where the unit tells neither."""
    shown = list(trace) if len(trace) <= MOST_STATES else _thinned(trace, MOST_STATES)
    temperature = [six_digits(state.temperature_c) for _, state in shown]
    cpu = [six_digits(max(state.clock_mhz, default=None)) for _, state in shown]
    gpu = [six_digits(state.gpu_clock_mhz) for _, state in shown]
    if not any(value is not None for values in (temperature, cpu, gpu) for value in values):
        return None
    return {
        "kind": "states",
        "time": [_time(time) for time, _ in shown],
        "temperature": temperature,
        "cpu": cpu,
        "limit": [six_digits(max(state.clock_limit_mhz, default=None)) for _, state in shown],
        "gpu": gpu,
        "note": [moment(time) for time, _ in shown],
    }


@functools.lru_cache(maxsize=4096)
def _time(time: str) -> str | None:
    """A time as the axis reads it, in UTC."""
    moment = utc(time)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") if moment else None


@functools.lru_cache(maxsize=4096)
def _second(time: str) -> int | None:
    """The same in seconds since 1970."""
    moment = utc(time)
    return math.floor(moment.timestamp()) if moment else None
