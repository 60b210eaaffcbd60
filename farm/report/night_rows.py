"""The nights of a series as rows of an HTML table, made here: a template takes thrice as long for so many cells."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap

from markupsafe import Markup, escape

from farm.report.figures import commit, figure, moment
from farm.rows.series import Metric, Point
from farm.safe_text import one_line, word

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
