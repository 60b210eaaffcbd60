"""The pages: Jinja2 templates filled with what a night says. All that is shown is escaped here, once for all."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic_core import to_json

from farm.decision.judgement import Verdict
from farm.decision.operator_changes import OperatorChange
from farm.nightly import words
from farm.nightly.headline import headline
from farm.nightly.night import DeviceReport, Night, SeriesReport
from farm.processes import each_result
from farm.report import charts, figures
from farm.report.device_tables import device_view
from farm.report.figures import commit, figure, moment
from farm.report.lines import Line, Links, line, lines_of, links_of
from farm.report.matrix import engine_matrix, matrix
from farm.rows.series import Metric, Point
from farm.safe_text import one_line, word

# Sections of the summary, in order: heading, id, verdicts, and what is said where there is none.
SECTIONS = (
    ("Worse", "worse", (Verdict.WRONG_RESULT, Verdict.REGRESSION)),
    ("The environment changed, not the software", "environment", (Verdict.ENVIRONMENT_CHANGED,)),
    ("Failed or missing", "failed", (Verdict.FAILED, Verdict.MISSING)),
    ("Perhaps: seen, but not confirmed", "perhaps", (Verdict.PROVISIONAL_REGRESSION, Verdict.PROVISIONAL_IMPROVEMENT)),
    ("Better", "better", (Verdict.IMPROVEMENT,)),
    ("Spoiled by the devices' state", "spoiled", (Verdict.SPOILED,)),
    ("New or replaced", "new", (Verdict.REPLACED, Verdict.NEW)),
)


SHOWN_NIGHTS = 60  # in the table of a series; its chart and the files that it offers have all
LISTED_NIGHTS = 60
BLAMED_OPERATORS = 5
MANY_SERIES = 500  # whose pages are made in several processes
SERIES_AN_OVERVIEW = 16  # so many pages of series between two others


def pages(night: Night) -> Iterator[tuple[str, str]]:
    """Path and content of every page, one after the other."""
    links, series = links_of(night), night.series
    overviews = _overviews(night, links)
    page = functools.partial(_series_page, dataclasses.replace(night, devices=(), earlier=()))
    links_of_each = (links.of_one(report.key) for report in series)
    of_series = each_result(page, zip(series, links_of_each, strict=True), len(series), MANY_SERIES)
    for number, path_and_text in enumerate(of_series):
        yield path_and_text
        if number % SERIES_AN_OVERVIEW == 0:  # while other processes make the next series' pages
            yield from itertools.islice(overviews, 1)
    yield from overviews


def _overviews(night: Night, links: Links) -> Iterator[tuple[str, str]]:
    """The summary and the page of each device."""
    yield "index.html", _render("index.html", _summary(night, links), night)
    for device in night.devices:
        yield links.devices[device.unit], _render("device.html", _device(device, links), night, "../")


def _series_page(night: Night, linked: tuple[SeriesReport, Links]) -> tuple[str, str]:
    """Path and content of a series' page; of the night only what all pages say."""
    report, links = linked
    return links.series[report.key], _render("series.html", _one_series(report, links), night, "../")


def nights_page(night: Night, kept: Mapping[int, tuple[str, str]]) -> str:
    """The list of nights. `kept`: those whose reports are there: run, the report's first page, and its headline."""
    runs = [(run, *kept.get(run.id, ("", ""))) for run in night.earlier[:LISTED_NIGHTS]]
    others = sorted(set(kept) - {run.id for run in night.earlier}, reverse=True)
    values = {"runs": runs, "others": [(run, *kept[run]) for run in others], "headline": headline(night)}
    return _render("nights.html", values, night)


def _render(template: str, values: Mapping[str, Any], night: Night, root: str = "") -> str:
    return _environment().get_template(template).render(values, run=night.run, baseline=night.baseline, root=root)


@functools.cache
def _environment() -> Environment:
    return page_environment(PackageLoader("farm.report"))


def page_environment(loader: BaseLoader) -> Environment:
    """Templates with our filters, which escape whatever they show."""
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_printable,
    )
    environment.filters |= {
        "moment": figures.moment,
        "milliseconds": figures.milliseconds,
        "percent": figures.percent,
        "digits": figures.digits,
        "short": word,
        "commit": figures.commit,
        "capitalised": words.capitalised,
        "json": script_json,
    }
    environment.globals |= {"WORDS": words.WORDS, "duration": figures.duration, "NONE": figures.NONE}
    return environment


def _printable(value: object) -> object:
    """Without control characters, and with minus signs; markup is the templates' own."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return figures.with_minus(value if value.isprintable() else one_line(value))


def script_json(value: object) -> Markup:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = to_json(value, inf_nan_mode="null").decode()  # a quarter of the time that json.dumps takes
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _summary(night: Night, links: Links) -> dict[str, Any]:
    ordered = words.worst_first(night.series)
    lines = [line(report, links) for report in ordered]
    return {
        "headline": headline(night),
        "is_worse": any(map(words.has_worsened, ordered)),
        "counts": words.tally(ordered),
        "sections": [
            (title, anchor, [(reason, [line(report, links) for report in members]) for reason, members in causes])
            for title, anchor, verdicts in SECTIONS
            if (causes := words.by_cause(night.having(*verdicts)))
        ],
        "anchors": {verdict: anchor for _, anchor, verdicts in SECTIONS for verdict in verdicts},
        "lines": lines,
        "devices": [(device, links.devices[device.unit], words.tally(lines_of(device))) for device in night.devices],
        "control": night.control,
        "matrix": matrix(night, links),
        "engine_matrix": engine_matrix(night, links),
        "operators": _operators(night, links),
        "versions": sorted(night.run.versions.items()),
    }


def _operators(night: Night, links: Links) -> list[tuple[Line, list[tuple[str, ...]]]]:
    """The lines of latencies that have changed for the worse, each with the operators to blame."""
    blamed = [
        (report, case.operator_changes[:BLAMED_OPERATORS])
        for device in night.devices
        for case in device.cases
        for report in case.series
        if case.operator_changes
        and report.judgement.verdict == Verdict.REGRESSION
        and report.key.metric == Metric.LATENCY
    ]
    return [(line(report, links), [_operator(change) for change in changes]) for report, changes in blamed]


def _operator(change: OperatorChange) -> tuple[str, ...]:
    """Name, type, time before and now, the difference and its interval, in milliseconds."""
    low, high = (f"{figures.digits(end, 3)}" for end in (change.low_ms, change.high_ms))
    known = math.isfinite(change.low_ms)
    return (
        change.name,
        change.kind,
        figures.milliseconds(change.before_ms),
        figures.milliseconds(change.now_ms),
        figures.signed_milliseconds(change.difference_ms),
        f"{low} to {high} ms" if known else "new" if change.before_ms is None else "gone",
    )


def _device(device: DeviceReport, links: Links) -> dict[str, Any]:
    series = words.worst_first(lines_of(device))
    return {
        "device": device,
        "counts": words.tally(series),
        "lines": [line(report, links, "../") for report in series],
        "view": device_view(device),
    }


def _one_series(report: SeriesReport, links: Links) -> dict[str, Any]:
    shown = report.points[-SHOWN_NIGHTS:]
    return {
        "line": line(report, links, "../"),
        "title": words.title(report.key),
        "case": report.key.case,
        "judgement": report.judgement,
        "chart": charts.packed_history(report),
        "nights": night_rows(shown[::-1], report.key.metric),
        "shown_count": len(shown),
        "night_count": len(report.points),
        "left_out": any(point.spoiled for point in shown),
        "changes": _changes(report),
    }


def _changes(report: SeriesReport) -> list[tuple[int, str, str, str, tuple[str, str]]]:
    """Run, time, change, its interval or what is new, and commits of all that changed; the latest first."""
    changes = [
        (
            change.run,
            change.time,
            figures.percent(change.ratio),
            figures.interval(change.low, change.high),
            change.commits,
        )
        for change in report.judgement.change_points
    ]
    changes += [(point.run, point.time, figures.NONE, what, ("", "")) for point, what in charts.swaps(report.points)]
    return sorted(changes, reverse=True)


COLUMNS = 7
MOST_REMARKS = 200  # characters
_ROW = (
    '<tr><th scope="row" class="n">{}</th><td data-name="Time">{}</td><td class="n" data-name="Tonight">{}</td>'
    '<td class="n" data-name="Measured">{}</td><td class="n" data-name="Hottest">{}</td>'
    '<td data-name="Commit">{}</td><td class="why">{}</td></tr>'
)


def night_rows(nights: Iterable[Point], metric: Metric) -> Markup:
    """Run, time, figure, how many measurements, temperature, commit, and what else is to be said."""
    cells = [cell for point in nights for cell in _cells(point, metric)]
    if not "".join(cells).isprintable():
        cells = list(map(one_line, cells))
    escaped = iter(str(escape("\n".join(cells))).split("\n"))  # all at once: no cell has a line end
    return Markup("\n".join(starmap(_row, zip(*[escaped] * COLUMNS, strict=False))))


def _row(run: str, time: str, value: str, measured: str, temperature: str, made_of: str, remarks: str) -> str:
    shown = f"<code>{made_of}</code>" if made_of else ""
    return _ROW.format(run, time, value, measured, temperature, shown, remarks)


def _cells(point: Point, metric: Metric) -> tuple[str, ...]:
    return (
        str(point.run),
        moment(point.time),
        figure(metric, point.value),
        str(len(point.runs)),
        "" if point.temperature_c is None else f"{point.temperature_c:.0f} °C",
        commit(point.commit),
        _remarks(point),
    )


def _remarks(point: Point) -> str:
    remarks = (
        f"left out: {point.spoiled}" if point.spoiled else "",
        "" if point.status == "ok" else f"{point.status}: {point.reason}",
        f"{point.reruns} re-runs" if point.reruns else "",
    )
    return word("; ".join(filter(None, remarks)), MOST_REMARKS) if any(remarks) else ""
