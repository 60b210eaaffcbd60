"""A night as Markdown for a merge request: the verdict, then what is not unchanged, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farm.decision.judgement import Verdict
from farm.nightly.headline import headline
from farm.nightly.night import Night, SeriesReport
from farm.nightly.words import WORDS, by_cause, case_title, counted, counts
from farm.report.figures import NONE, change, figure, interval, moment, with_minus
from farm.report.markdown import markdown, plain
from farm.safe_text import word
from farm.tables.table import Table

MOST_BYTES = 60_000  # merge requests and comments take 64 KB at the least
_LEFT = frozenset({"Verdict", "Series", "Unit", "95 % interval", "Why"})
_COLUMNS = ("Verdict", "Series", "Unit", "Tonight", "Baseline", "Change", "95 % interval", "Why")


def merge_request(night: Night, most_bytes: int = MOST_BYTES) -> str:
    """The text; the last lines of its table give way to their count where it would be longer than so many bytes."""
    shown = [report for report in night.series if report.judgement.verdict != Verdict.UNCHANGED]
    head, foot = "\n\n".join(_head(night)), "\n\n".join(_foot(night))
    table = markdown(_table(shown)).splitlines() if shown else []
    room = most_bytes - len(f"{head}{foot}".encode()) - 200
    kept, used = 0, 0
    while kept < len(table) and (used := used + len(table[kept].encode()) + 1) <= room:
        kept += 1
    left_out = [f"… and {len(table) - kept} more, all in the report."] if kept < len(table) else []
    parts = [head, "\n".join(table[:kept]), *left_out, foot]
    return "\n\n".join(filter(None, parts)) + "\n"


def _head(night: Night) -> Iterator[str]:
    yield f"## {plain(word(headline(night), 400))}"
    known = counts(night.series)
    yield ", ".join(counted(verdict, count) for verdict, count in known.items() if count) or "no series"


def _table(series: Sequence[SeriesReport]) -> Table:
    """Series of one reason stand together, and it is told once."""
    rows = [
        (*_cells(report), "as above" if number else with_minus(word(reason, 200)))
        for reason, members in by_cause(series)
        for number, report in enumerate(members)
    ]
    return Table("", _COLUMNS, rows, _LEFT)


def _cells(report: SeriesReport) -> tuple[str, ...]:
    metric, judgement = report.key.metric, report.judgement
    return (
        WORDS[judgement.verdict].one,
        f"{metric.info.title} of {word(case_title(report.key.case))}",
        word(report.key.case.unit, 40),
        figure(metric, judgement.value),
        figure(metric, judgement.baseline),
        change(metric, judgement),
        interval(judgement.low, judgement.high),
    )


def _foot(night: Night) -> Iterator[str]:
    control = night.control
    if control and control.comparisons:
        yield (
            f"False alarms to expect: {control.expected_alarms_per_week:.2g} a week "
            f"({control.low:.2g} to {control.high:.2g}), from {control.comparisons} A/A comparisons."
        )
    else:
        yield "False alarms to expect: too few nights yet to tell."
    run = night.run
    commit = plain(word(run.commit, 40)) if run.commit else NONE
    against = plain(word(night.baseline, 60))
    when = f"{moment(run.started)} to {moment(run.ended)}, {plain(run.state)}"
    yield f"Run {run.id}, {when}; commit {commit}; against {against}."
