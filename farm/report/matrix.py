"""The summary's matrix: how long each model takes on each SoC, and what became of it tonight."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from farm.decision.judgement import Verdict
from farm.nightly.night import CaseReport, Night, SeriesReport
from farm.nightly.words import Word, case_title, rank, word_of
from farm.report.figures import NONE, change, figure, percent
from farm.report.lines import Links
from farm.rows.series import Metric
from farm.safe_text import word

Key = tuple[str, str]  # title of the case without its unit, and SoC


@dataclasses.dataclass(frozen=True)
class Cell:
    """A case on the units of one SoC; its figures are those of the unit with the worst verdict.

    `remarks`: the change of the latency, the tuned files against the default, and which of how many units it is.
    """

    href: str
    word: Word
    is_changed: bool
    value: str
    remarks: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A row for each case, a column for each SoC; None where a SoC does not have the case."""

    socs: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


def matrix(night: Night, links: Links) -> Matrix:
    """All cases that have a latency, in the order of their names."""
    found: dict[Key, list[CaseReport]] = {}
    for device in night.devices:
        for case in device.cases:
            if _latency(case):
                found.setdefault((case_title(case.case), device.soc), []).append(case)
    socs, titles = sorted({soc for _, soc in found}), sorted({title for title, _ in found})
    return Matrix(socs, [(title, list(_cells(title, socs, found, links))) for title in titles])


def _cells(
    title: str, socs: Iterable[str], found: Mapping[Key, Sequence[CaseReport]], links: Links
) -> Iterable[Cell | None]:
    for soc in socs:
        cases = found.get((title, soc))
        yield _cell(cases, links) if cases else None


def _cell(cases: Sequence[CaseReport], links: Links) -> Cell:
    worst = min(cases, key=_badness)
    shown = min(worst.series, key=rank)
    latency = _latency(worst)
    assert latency, "only cases with a latency stand in the matrix"
    opened = latency if rank(latency) <= rank(shown) else shown
    is_changed = opened.judgement.verdict != Verdict.UNCHANGED
    return Cell(
        href=links.series[opened.key],
        word=word_of(opened),
        is_changed=is_changed,
        value=figure(Metric.LATENCY, latency.judgement.value),
        remarks=list(filter(None, _remarks(worst, latency, len(cases), is_changed))),
    )


def _badness(case: CaseReport) -> tuple[int, float]:
    """Orders cases, worst first: by their worst verdict, then by how much slower they are."""
    latency = _latency(case)
    return min(map(rank, case.series)), -latency.judgement.relative_change if latency else 0.0


def _remarks(case: CaseReport, latency: SeriesReport, units: int, is_changed: bool) -> Iterable[str]:
    changed = change(Metric.LATENCY, latency.judgement)
    yield "" if changed == NONE else changed
    if case.row and case.row.tuned_ratio is not None:
        yield f"tuned {percent(case.row.tuned_ratio)}"
    if units > 1:
        yield f"{word(case.case.unit, 24)}, worst of {units}" if is_changed else f"{units} units"


def _latency(case: CaseReport) -> SeriesReport | None:
    return next((series for series in case.series if series.key.metric == Metric.LATENCY), None)
