"""One line for each series, as all the tables of a report show it."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from farm.decision.judgement import Verdict
from farm.nightly.night import DeviceReport, Night, SeriesReport
from farm.nightly.words import Word, has_worsened, rank, way, word_of
from farm.report.figures import change, figure, interval
from farm.report.names import Names
from farm.rows.series import Metric, SeriesKey

SPARK_WIDTH, SPARK_HEIGHT = 96, 20


@dataclasses.dataclass(frozen=True)
class Links:
    """The page of each unit and of each series, from the report's folder."""

    devices: dict[str, str]
    series: dict[SeriesKey, str]

    def of_one(self, key: SeriesKey) -> Links:
        """Those of one series and its unit."""
        unit = key.case.unit
        return Links({unit: self.devices[unit]}, {key: self.series[key]})


def links_of(night: Night) -> Links:
    """Names for all pages."""
    devices, series = Names(), Names()
    return Links(
        {device.unit: f"devices/{devices.of(device.unit)}.html" for device in night.devices},
        {report.key: f"series/{series.of(*parts_of(report.key))}.html" for report in night.series},
    )


def parts_of(key: SeriesKey) -> tuple[str, ...]:
    """What the file name of a series is made of."""
    case = key.case
    return (case.unit, case.model, case.runner, case.setting, key.metric, case.library)


@dataclasses.dataclass(frozen=True)
class Line:
    """A series in a table. `sort_*` are numbers that its columns are sorted by."""

    href: str
    device_href: str
    unit: str
    model: str
    way: str
    metric: str
    value: str
    baseline: str
    change: str
    interval: str
    verdict: Verdict
    word: Word
    is_worse: bool
    reason: str
    sort_value: float
    sort_baseline: float
    sort_change: float
    sort_verdict: int
    recent: Sequence[float | None]

    @functools.cached_property
    def spark(self) -> str:
        """The chart of its last nights; few tables have one."""
        return sparkline(self.recent)


def line(report: SeriesReport, links: Links, root: str = "") -> Line:
    """The line of a series; `root` leads from the page to the report's folder."""
    key, judgement = report.key, report.judgement
    metric: Metric = key.metric
    return Line(
        href=root + links.series[key],
        device_href=root + links.devices.get(key.case.unit, ""),
        unit=key.case.unit,
        model=key.case.model,
        way=way(key.case),
        metric=metric.info.title,
        value=figure(metric, judgement.value),
        baseline=figure(metric, judgement.baseline),
        change=change(metric, judgement),
        interval=interval(judgement.low, judgement.high),
        verdict=judgement.verdict,
        word=word_of(report),
        is_worse=has_worsened(report),
        reason=judgement.why,
        sort_value=_number(judgement.value),
        sort_baseline=_number(judgement.baseline),
        sort_change=round(judgement.relative_change, 6),
        sort_verdict=rank(report),
        recent=report.recent,
    )


def _number(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else -1.0


def sparkline(values: Sequence[float | None]) -> str:
    """The points of an SVG polyline through the last nights' figures; empty for fewer than two."""
    known = [(place, value) for place, value in enumerate(values) if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return ""
    low, high = min(value for _, value in known), max(value for _, value in known)
    room, last = SPARK_HEIGHT - 4, len(values) - 1
    return " ".join(
        f"{place * (SPARK_WIDTH - 4) / last + 2:.1f},{2 + room * (1 - (value - low) / ((high - low) or 1)):.1f}"
        for place, value in known
    )


def lines_of(device: DeviceReport) -> list[SeriesReport]:
    """All series of a unit."""
    return [report for case in device.cases for report in case.series]
