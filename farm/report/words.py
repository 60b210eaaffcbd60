"""What a night is told with: names of verdicts, their order, and the sentence that comes first."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from farm.decision.judgement import Verdict
from farm.nightly.configuration import DEFAULT_SETTING
from farm.nightly.night import Night, SeriesReport
from farm.report.figures import relative_change
from farm.rows.series import Case, SeriesKey


@dataclasses.dataclass(frozen=True)
class Word:
    """A verdict's name, its plural, its sign beside it (colour is never alone), and the colours it is shown in."""

    one: str
    many: str
    sign: str
    tone: str


WORDS = {
    Verdict.WRONG_RESULT: Word("wrong result", "wrong results", "✕", "bad"),
    Verdict.REGRESSION: Word("regression", "regressions", "!", "bad"),
    Verdict.FAILED: Word("failed", "failed", "✕", "bad"),
    Verdict.MISSING: Word("missing", "missing", "∅", "bad"),
    Verdict.PROVISIONAL_REGRESSION: Word("maybe worse", "maybe worse", "?", "maybe"),
    Verdict.IMPROVEMENT: Word("improvement", "improvements", "✓", "good"),
    Verdict.PROVISIONAL_IMPROVEMENT: Word("maybe better", "maybe better", "?", "maybe"),
    Verdict.ENVIRONMENT_CHANGED: Word("environment changed", "environment changes", "~", "maybe"),
    Verdict.SPOILED: Word("spoiled", "spoiled", "○", "quiet"),
    Verdict.REPLACED: Word("replaced", "replaced", "↻", "quiet"),
    Verdict.NEW: Word("new", "new", "+", "quiet"),
    Verdict.UNCHANGED: Word("unchanged", "unchanged", "=", "quiet"),
}
_ORDER = {verdict: number for number, verdict in enumerate(WORDS)}


def worst_first(series: Sequence[SeriesReport]) -> list[SeriesReport]:
    """By verdict, within one by the size of the change, then by name."""
    return sorted(series, key=lambda report: (rank(report), -abs(relative_change(report.judgement)), report.key))


def rank(report: SeriesReport) -> int:
    """Its verdict's place, worst first."""
    return _ORDER[report.judgement.verdict]


def counts(series: Sequence[SeriesReport]) -> dict[Verdict, int]:
    """How many have each verdict, worst first; all verdicts."""
    numbers = Counter(report.judgement.verdict for report in series)
    return {verdict: numbers[verdict] for verdict in WORDS}


def counted(verdict: Verdict, count: int) -> str:
    """`1 regression`, `3 regressions`."""
    return f"{count} {WORDS[verdict].one if count == 1 else WORDS[verdict].many}"


def headline(night: Night) -> str:
    """The night in one sentence."""
    series, numbers = night.series, counts(night.series)
    bad = [counted(verdict, count) for verdict, count in numbers.items() if verdict.is_bad and count]
    if not series:
        return "Nothing was measured: no series tonight"
    if bad:
        first = worst_first(series)[0]
        alone = len(bad) == 1 and numbers[first.judgement.verdict] == 1
        return f"{', '.join(bad)}{': ' if alone else '. Worst: '}{sentence(first)}"
    if numbers[Verdict.SPOILED] == len(series):
        return f"Nothing can be said: the devices' state spoiled all {len(series)} series"
    rest = [counted(verdict, count) for verdict, count in numbers.items() if count]
    return f"Nothing worse: {', '.join(rest)}, of {len(series)} series"


def sentence(report: SeriesReport) -> str:
    """What became of a series, with its name."""
    return f"{title(report.key)}: {report.judgement.reason}"


def title(key: SeriesKey) -> str:
    """`latency of mobilenet_v1 (gpu) on pixel`."""
    return f"{_within(key.metric.info.title)} of {case_title(key.case)} on {key.case.unit}"


def _within(name: str) -> str:
    """A name within a sentence; abbreviations stay."""
    return name if any(letter.isupper() for letter in name[1:]) else name[:1].lower() + name[1:]


def case_title(case: Case) -> str:
    """`mobilenet_v1 (gpu)`; the setting where it is not the default."""
    return f"{case.model} ({way(case)})"


def way(case: Case) -> str:
    """`gpu`, or `gpu, untuned`."""
    return case.runtime if case.setting == DEFAULT_SETTING else f"{case.runtime}, {case.setting}"
