"""The words for a night: names of verdicts and series, and the order in which series are told."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from farm.decision.judgement import Verdict
from farm.nightly.configuration import DEFAULT_SETTING
from farm.nightly.night import SeriesReport
from farm.rows.series import Case, Metric, SeriesKey


@dataclasses.dataclass(frozen=True)
class Word:
    """A verdict's name, its plural, its sign beside it (colour is never alone), and the colours it is shown in."""

    one: str
    many: str
    sign: str
    tone: str

    def name(self, count: int) -> str:
        """For so many."""
        return self.one if count == 1 else self.many


WORDS = {
    Verdict.WRONG_RESULT: Word("wrong result", "wrong results", "✕", "bad"),
    Verdict.REGRESSION: Word("regression", "regressions", "!", "bad"),
    Verdict.FAILED: Word("failed", "failed", "✕", "bad"),
    Verdict.MISSING: Word("missing", "missing", "∅", "bad"),
    Verdict.ENVIRONMENT_CHANGED: Word("environment changed", "environment changes", "~", "maybe"),
    Verdict.PROVISIONAL_REGRESSION: Word("maybe worse", "maybe worse", "?", "maybe"),
    Verdict.IMPROVEMENT: Word("improvement", "improvements", "✓", "good"),
    Verdict.PROVISIONAL_IMPROVEMENT: Word("maybe better", "maybe better", "?", "maybe"),
    Verdict.SPOILED: Word("spoiled", "spoiled", "○", "quiet"),
    Verdict.REPLACED: Word("replaced", "replaced", "↻", "quiet"),
    Verdict.NEW: Word("new", "new", "+", "quiet"),
    Verdict.UNCHANGED: Word("unchanged", "unchanged", "=", "quiet"),
}
_ORDER = {verdict: number for number, verdict in enumerate(WORDS)}
_FELT_FIRST = (
    *(Metric.LATENCY, Metric.COSINE, Metric.SQNR, Metric.MAX_ERROR, Metric.NAN),
    *(Metric.FIRST, Metric.INIT, Metric.MEMORY, Metric.FILES, Metric.TUNED_RATIO),
)


def worst_first(series: Sequence[SeriesReport]) -> list[SeriesReport]:
    """By verdict, then by what the user feels most, then by the size of the change, then by name."""
    return sorted(series, key=lambda report: (*gravity(report), -abs(report.judgement.relative_change), report.key))


def rank(report: SeriesReport) -> int:
    """Its verdict's place, worst first."""
    return _ORDER[report.judgement.verdict]


def gravity(report: SeriesReport) -> tuple[int, int]:
    """Orders series by verdict, and those of one verdict by what the user feels most: latency before first run."""
    metric = report.key.metric
    return rank(report), _FELT_FIRST.index(metric) if metric in _FELT_FIRST else 0  # a program's is its latency


def has_worsened(report: SeriesReport) -> bool:
    """Whether the user has something worse than before: a bad verdict, or a change for the worse of whatever cause."""
    judgement = report.judgement
    if judgement.verdict != Verdict.ENVIRONMENT_CHANGED:
        return judgement.verdict.is_bad
    return (judgement.relative_change > 0) == report.key.metric.info.lower_is_better


def word_of(report: SeriesReport) -> Word:
    """Its verdict's word, in the colour of what is bad where the user has something worse, whatever the cause."""
    known = WORDS[report.judgement.verdict]
    return dataclasses.replace(known, tone="bad") if has_worsened(report) and known.tone != "bad" else known


def tally(series: Sequence[SeriesReport]) -> list[tuple[Verdict, str, str, str]]:
    """Each verdict that some series have, worst first: verdict, how many, its name for so many, and its colour."""
    worse = {report.judgement.verdict for report in series if has_worsened(report)}
    return [
        (verdict, str(count), WORDS[verdict].name(count), "bad" if verdict in worse else WORDS[verdict].tone)
        for verdict, count in counts(series).items()
        if count
    ]


def by_cause(series: Sequence[SeriesReport]) -> list[tuple[str, list[SeriesReport]]]:
    """Series worst first, those that share verdict and reason together: each reason needs to be told only once."""
    groups: dict[tuple[Verdict, str], list[SeriesReport]] = {}
    for report in worst_first(series):
        judgement = report.judgement
        groups.setdefault((judgement.verdict, judgement.shared_reason), []).append(report)
    return [(reason, members) for (_, reason), members in groups.items()]


def counts(series: Sequence[SeriesReport]) -> dict[Verdict, int]:
    """How many have each verdict, worst first; all verdicts."""
    numbers = Counter(report.judgement.verdict for report in series)
    return {verdict: numbers[verdict] for verdict in WORDS}


def counted(verdict: Verdict, count: int) -> str:
    """`1 regression`, `3 regressions`."""
    return f"{count} {WORDS[verdict].name(count)}"


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
    """`gpu`, `gpu, untuned`, or `cpu of onnxruntime`."""
    return case.runner if case.setting == DEFAULT_SETTING else f"{case.runner}, {case.setting}"


def capitalised(text: str) -> str:
    """A text as a sentence begins; a name such as `device_lost` is left as it is."""
    return text if "_" in text.partition(" ")[0] else f"{text[:1].upper()}{text[1:]}"
