"""The summary's matrices: how long each model takes on each SoC, and in each engine on each unit."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from farm.decision.comparison import LEAST_BLOCKS
from farm.decision.judgement import Verdict
from farm.decision.samples import compare_samples
from farm.nightly.configuration import DEFAULT_SETTING
from farm.nightly.night import CaseReport, Night, SeriesReport
from farm.nightly.words import Word, case_title, rank, word_of
from farm.report.figures import NONE, change, figure, percent
from farm.report.lines import Links, sparkline
from farm.rows.nightly_block import block_medians
from farm.rows.row import OWN_ENGINE
from farm.rows.series import Case, Metric
from farm.safe_text import word

Key = tuple[str, str]  # row and column: title of the case without its unit, and SoC or unit


@dataclasses.dataclass(frozen=True)
class Cell:
    """A case on the units of one SoC; its figures are those of the unit with the worst verdict.

    `remarks`: the change of the latency, the tuned files against the default, and which of how many units it is; of an
    engine its time over farmrt's. `spark` is the chart of its last nights.
    """

    href: str
    word: Word
    is_changed: bool
    value: str
    remarks: Sequence[str]
    spark: str = ""


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A row for each case, a column for each SoC or unit; None where it does not have the case."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


def matrix(night: Night, links: Links) -> Matrix:
    """All cases that have a latency, in the order of their names."""
    found: dict[Key, list[CaseReport]] = {}
    for device in night.devices:
        for case in device.cases:
            if _latency(case):
                found.setdefault((case_title(case.case), device.soc), []).append(case)
    return _filled({key: _cell(cases, links) for key, cases in found.items()})


def engine_matrix(night: Night, links: Links) -> Matrix:
    """Models that other engines run, too: a row for each engine, a column for each unit, with the history of each."""
    cases = [case for device in night.devices for case in device.cases if _latency(case)]
    models = {case.case.model for case in cases if case.case.engine != OWN_ENGINE}
    own = {_without_engine(case.case): case for case in cases if case.case.engine == OWN_ENGINE}
    found = {
        (f"{case.case.model}: {_engine_title(case.case)}", case.case.unit): _engine_cell(
            case, own.get(_without_engine(case.case)), links
        )
        for case in cases
        if case.case.model in models
    }
    return _filled(found)


def _filled(cells: Mapping[Key, Cell]) -> Matrix:
    columns, titles = sorted({column for _, column in cells}), sorted({title for title, _ in cells})
    return Matrix(columns, [(title, [cells.get((title, column)) for column in columns]) for title in titles])


def _without_engine(case: Case) -> Case:
    return dataclasses.replace(case, engine=OWN_ENGINE)


def _engine_title(case: Case) -> str:
    setting = "" if case.setting == DEFAULT_SETTING else f", {case.setting}"
    return f"{case.engine} ({case.runtime}{setting})"


def _engine_cell(case: CaseReport, own: CaseReport | None, links: Links) -> Cell:
    cell, latency = _cell([case], links), _latency(case)
    assert latency, "only cases with a latency stand in the matrix"
    over = "" if own is None or own is case else _over(case, own)
    return dataclasses.replace(cell, remarks=[*cell.remarks, *filter(None, [over])], spark=sparkline(latency.recent))


def _over(case: CaseReport, own: CaseReport) -> str:
    """An engine's time over farmrt's by tonight's blocks of both, which were measured in random order."""
    sides = [block_medians(each.row.blocks) if each.row else [] for each in (own, case)]
    found = compare_samples(*sides)
    if found is None or min(map(len, sides)) < LEAST_BLOCKS:
        return ""
    return f"{found.ratio:.2f} of farmrt's time ({found.low:.2f} to {found.high:.2f})"


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
