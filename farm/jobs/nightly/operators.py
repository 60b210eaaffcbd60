"""Looks in the store for the operators that a change of latency comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from farm.decision.judgement import Verdict
from farm.decision.operator_changes import OperatorChange, Times, operator_changes, summed_times
from farm.nightly.night import SeriesReport
from farm.rows.series import Case, Metric
from farm.rows.status import Status
from farm.store import Store

NIGHTS_BEFORE = 14
_CHANGED = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


def changed_operators(store: Store, series: Iterable[SeriesReport]) -> Sequence[OperatorChange]:
    """The operators that have changed in a case, of these series, whose latency has; empty for any other case."""
    latency = next((each for each in series if each.key.metric == Metric.LATENCY), None)
    if latency is None or latency.judgement.verdict not in _CHANGED:
        return ()
    runs, since = [point.run for point in latency.points], max(latency.judgement.nights, 1)
    now = _nights(store, runs[-since:], latency.key.case)
    before = _nights(store, runs[-since - NIGHTS_BEFORE : -since], latency.key.case)
    return operator_changes(list(now), list(before))


def _nights(store: Store, runs: Iterable[int], case: Case) -> Iterator[Times]:
    for run in runs:
        row = store.nightly_row(run, case)
        if row and row.status == Status.OK and row.ops:
            yield summed_times((op.name, op.type, op.avg_ms) for op in row.ops)
