"""The sentence that a night is told with first: "Both phones 2.1 times slower; not the software". Pure functions.

Pages, the terminal, merge requests and notifications all show this one sentence.
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Iterable, Sequence

from farm.decision.judgement import SOFTWARE, Judgement, Verdict
from farm.nightly.night import Night, SeriesReport
from farm.nightly.words import capitalised, case_title, counted, counts, gravity, has_worsened, worst_first
from farm.rows.series import Case, Metric
from farm.safe_text import word

MOST_CLAUSES = 3
MOST_NAMES = 2  # of units or models; more are counted
TIMES = 1.5  # a larger ratio reads better as "2.1 times slower" than as "110 % slower"
ALIKE = 0.15  # changes that differ by less than this share are told by their median

# What a figure is called before the model's name, and the words for its being worse and better.
_FIGURES = {
    Metric.LATENCY: ("", "slower", "faster"),
    Metric.FIRST: ("first run", "slower", "faster"),
    Metric.INIT: ("initialisation", "slower", "faster"),
    Metric.TUNED_RATIO: ("tuned files", "slower", "faster"),
    Metric.MEMORY: ("memory", "larger", "smaller"),
    Metric.FILES: ("files", "larger", "smaller"),
    Metric.COSINE: ("accuracy", "worse", "better"),
    Metric.SQNR: ("accuracy", "worse", "better"),
    Metric.MAX_ERROR: ("accuracy", "worse", "better"),
    Metric.NAN: ("accuracy", "worse", "better"),
}
_ACCURACY = (Metric.COSINE, Metric.SQNR, Metric.MAX_ERROR, Metric.NAN)
_DONE = {Verdict.WRONG_RESULT: "wrong", Verdict.FAILED: "failed", Verdict.MISSING: "not measured"}
_TOLD_WHY = (Verdict.WRONG_RESULT, Verdict.FAILED)
_BETTER = (Verdict.IMPROVEMENT, Verdict.ENVIRONMENT_CHANGED)


@dataclasses.dataclass(frozen=True)
class HeadlineClause:
    """Series of one figure that share verdict, direction and cause: one clause tells them all."""

    series: Sequence[SeriesReport]
    text: str

    @property
    def reason(self) -> str:
        """Why they failed or are wrong, where all say the same; else empty."""
        reasons = {report.judgement.reason for report in self.series}
        is_told = self.series[0].judgement.verdict in _TOLD_WHY and len(reasons) == 1
        return f": {word(reasons.pop(), 80)}" if is_told else ""


def headline(night: Night) -> str:
    """The night in one sentence: what is worse for the user first, with its size and, where it is known, its cause."""
    series, numbers = night.series, counts(night.series)
    if not series:
        return "Nothing was measured: no series tonight"
    if worse := findings(night, filter(has_worsened, series)):
        more = len(worse) - MOST_CLAUSES
        if len(worse) == 1:
            return f"{worse[0].text}{worse[0].reason}"
        return ". ".join([*(each.text for each in worse[:MOST_CLAUSES]), *([f"{more} more"] if more > 0 else [])])
    if numbers[Verdict.SPOILED] == len(series):
        return f"Nothing can be said: the devices' state spoiled all {len(series)} series"
    rest = [counted(verdict, count) for verdict, count in numbers.items() if count]
    if better := findings(night, night.having(*_BETTER)):
        return f"{better[0].text}. Nothing worse of {len(series)} series"
    return f"Nothing worse: {', '.join(rest)}, of {len(series)} series"


def findings(night: Night, series: Iterable[SeriesReport]) -> list[HeadlineClause]:
    """The given series of a night as clauses, the worst first.

    A case that a clause names is not named again for another figure: a model that is slower also starts more slowly.
    """
    groups: dict[tuple[object, ...], list[SeriesReport]] = {}
    for report in worst_first(list(series)):
        key = (*gravity(report), has_worsened(report), report.judgement.cause)
        groups.setdefault(key, []).append(report)
    found, told = [], set[Case]()
    for members in groups.values():
        fresh = [report for report in members if report.key.case not in told]
        told |= {report.key.case for report in members}
        if fresh:
            found.append(HeadlineClause(fresh, _clause(night, fresh)))
    return found


def _clause(night: Night, series: Sequence[SeriesReport]) -> str:
    """`Both phones 2.1 times slower; not the software`, `net (gpu) 9.8 % slower on pixel`."""
    units = sorted({report.key.case.unit for report in series})
    where, change, cause = _units_phrase(night, units), _change(series), _cause(series)
    figure = figure_words(series[0].key.metric)[0] if series[0].judgement.verdict not in _DONE else ""
    if not _are_whole(night, units, series):
        models = _cases_phrase([report.key.case for report in series])
        return f"{capitalised(f'{figure} of ') if figure else ''}{models} {change} on {where}{cause}"
    if figure:
        return f"{capitalised(figure)} {change} on {where}{cause}"
    return f"{capitalised(where) if 1 < len(units) == len(night.devices) else where} {change}{cause}"


def figure_words(metric: Metric) -> tuple[str, str, str]:
    """What a figure is called, and the words for its being worse and better."""
    if metric in _FIGURES:
        return _FIGURES[metric]
    worse, better = ("higher", "lower") if metric.info.lower_is_better else ("lower", "higher")
    return word(metric.info.title, 40), worse, better


def _change(series: Sequence[SeriesReport]) -> str:
    """`2.1 times slower`, `5.0 to 9.8 % slower`, `failed`."""
    judgement = series[0].judgement
    if judgement.verdict in _DONE:
        return _DONE[judgement.verdict]
    metric = series[0].key.metric
    _, worse, better = figure_words(metric)
    by = worse if has_worsened(series[0]) else better
    return f"{_size([each.judgement for each in series])} {by}" if metric not in _ACCURACY else by


def _size(judgements: Sequence[Judgement]) -> str:
    """How much, without its sign: `2.1 times` or `9.8 %`; a range where the changes are not alike."""
    changes = sorted(each.relative_change for each in judgements)
    ratios = [max(1 + change, 1 / (1 + change)) if change > -1 else math.inf for change in changes]
    is_by_times = min(ratios) >= TIMES
    sizes = sorted(ratios if is_by_times else [100 * abs(change) for change in changes])
    if sizes[0] >= (1 - ALIKE) * sizes[-1]:
        sizes = [statistics.median(sizes)]
    shown = dict.fromkeys(f"{size:.1f}" for size in (sizes[0], sizes[-1]))
    return f"{' to '.join(shown)} {'times' if is_by_times else '%'}"


def _are_whole(night: Night, units: Collection[str], series: Sequence[SeriesReport]) -> bool:
    """Whether these units have no other series of the same figure tonight: the clause is about the units as such."""
    metric, told = series[0].key.metric, {report.key for report in series}
    return all(each.key in told for each in night.series if each.key.metric == metric and each.key.case.unit in units)


def _units_phrase(night: Night, units: Sequence[str]) -> str:
    """`pixel`, `both phones`, `all 40 units`, `3 of 40 units`."""
    count, all_count = len(units), len(night.devices)
    if count == 1 or (count < all_count and count <= MOST_NAMES):
        return " and ".join(word(unit, 40) for unit in units)
    noun = "phones" if all(row.passive for row in night.rows) else "units"
    if count < all_count:
        return f"{count} of {all_count} {noun}"
    return f"both {noun}" if count == 2 else f"all {count} {noun}"


def _cases_phrase(cases: Sequence[Case]) -> str:
    """`net (gpu)`, `net (gpu) and net (cpu)`, `5 models`."""
    titles = list(dict.fromkeys(word(case_title(case), 60) for case in cases))
    if len(titles) <= MOST_NAMES:
        return " and ".join(titles)
    models = {case.model for case in cases}
    return f"{len(models)} models" if len(models) > 1 else f"{word(cases[0].model, 40)} in {len(titles)} settings"


def _cause(series: Sequence[SeriesReport]) -> str:
    """What follows the clause: whether it was the software, and the facts that all have; empty where nobody asked."""
    judgement = series[0].judgement
    if judgement.cause == SOFTWARE:
        return f": {SOFTWARE}"
    shared = [fact for fact in judgement.facts if all(fact in each.judgement.facts for each in series)]
    return "; ".join(["", *filter(None, [judgement.cause]), *(word(fact, 80) for fact in shared)])
