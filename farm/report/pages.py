"""The pages: Jinja2 templates filled with what a night says. All that is shown is escaped here, once for all."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from farm.decision.judgement import Verdict
from farm.nightly.night import DeviceReport, Night, SeriesReport
from farm.report import charts, figures, words
from farm.report.device_tables import device_view
from farm.report.lines import Links, line, lines_of, links_of
from farm.rows.series import Point
from farm.safe_text import one_line, word

# Sections of the summary, in order: heading, id, verdicts, and what is said where there is none.
SECTIONS = (
    ("Worse", "worse", (Verdict.WRONG_RESULT, Verdict.REGRESSION)),
    ("Failed or missing", "failed", (Verdict.FAILED, Verdict.MISSING)),
    ("Perhaps: seen, but not confirmed", "perhaps", (Verdict.PROVISIONAL_REGRESSION, Verdict.PROVISIONAL_IMPROVEMENT)),
    ("The environment changed, not the software", "environment", (Verdict.ENVIRONMENT_CHANGED,)),
    ("Better", "better", (Verdict.IMPROVEMENT,)),
    ("Spoiled by the devices' state", "spoiled", (Verdict.SPOILED,)),
    ("New or replaced", "new", (Verdict.REPLACED, Verdict.NEW)),
)


def pages(night: Night) -> Iterator[tuple[str, str]]:
    """Path and content of every page, one after the other."""
    links = links_of(night)
    yield "index.html", _render("index.html", _summary(night, links), night)
    for device in night.devices:
        path = links.devices[device.unit]
        yield path, _render("device.html", _device(device, links), night, "../")
        for report in lines_of(device):
            yield links.series[report.key], _render("series.html", _one_series(report, device, links), night, "../")


def _render(template: str, values: Mapping[str, Any], night: Night, root: str = "") -> str:
    return _environment().get_template(template).render(values, run=night.run, baseline=night.baseline, root=root)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("farm.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {
        "moment": figures.moment,
        "milliseconds": figures.milliseconds,
        "percent": figures.percent,
        "digits": figures.digits,
        "short": word,
        "commit": figures.commit,
        "json": script_json,
    }
    environment.globals |= {"WORDS": words.WORDS, "duration": figures.duration, "NONE": figures.NONE}
    return environment


def _printable(value: object) -> object:
    """Without control characters; markup is the templates' own."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return one_line(value)


def script_json(value: object) -> Markup:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _summary(night: Night, links: Links) -> dict[str, Any]:
    ordered = words.worst_first(night.series)
    lines = [line(report, links) for report in ordered]
    return {
        "headline": words.headline(night),
        "outcome": night.outcome,
        "counts": words.counts(ordered),
        "sections": [
            (title, anchor, of_verdicts)
            for title, anchor, verdicts in SECTIONS
            if (of_verdicts := [row for row in lines if row.verdict in verdicts])
        ],
        "anchors": {verdict: anchor for _, anchor, verdicts in SECTIONS for verdict in verdicts},
        "lines": lines,
        "devices": [(device, links.devices[device.unit], words.counts(lines_of(device))) for device in night.devices],
        "control": night.control,
        "versions": sorted(night.run.versions.items()),
    }


def _device(device: DeviceReport, links: Links) -> dict[str, Any]:
    series = words.worst_first(lines_of(device))
    return {
        "device": device,
        "counts": words.counts(series),
        "lines": [line(report, links, "../") for report in series],
        "view": device_view(device),
    }


def _one_series(report: SeriesReport, device: DeviceReport, links: Links) -> dict[str, Any]:
    return {
        "line": line(report, links, "../"),
        "title": words.title(report.key),
        "device": device,
        "case": report.key.case,
        "judgement": report.judgement,
        "chart": charts.history(report),
        "nights": [_night_line(point, report) for point in reversed(report.points)],
        "changes": _changes(report),
    }


def _night_line(point: Point, report: SeriesReport) -> tuple[str, ...]:
    """Run, time, figure, how many measurements, temperature, commit, and what else is to be said."""
    temperature = "" if point.temperature_c is None else f"{point.temperature_c:.0f} °C"
    remarks = (
        f"left out: {point.spoiled}" if point.spoiled else "",
        "" if point.status == "ok" else f"{point.status}: {point.reason}",
        f"{point.reruns} re-runs" if point.reruns else "",
    )
    value = figures.figure(report.key.metric, point.value)
    commit = figures.commit(point.commit)
    measured = str(len(point.runs))
    return (
        str(point.run),
        figures.moment(point.time),
        value,
        measured,
        temperature,
        commit,
        "; ".join(filter(None, remarks)),
    )


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
