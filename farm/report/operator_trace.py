"""A model's operators as a trace that Perfetto opens: tonight's and those of before as two tracks, one above the other.

A nightly run keeps averages alone, so each operator begins where the one before it ends.
"""

import math
from collections.abc import Iterator

from farm.nightly.night import CaseReport, Night
from farm.nightly.words import case_title
from farm.rows.nightly import NightlyRow
from farm.rows.series import Metric
from farm.safe_text import word
from farm.tables import benchmark

PROCESS = 1


def slowest(night: Night) -> CaseReport | None:
    """The case that takes longest tonight, of those whose operators were timed."""
    timed = [case for case in _timed(night) if (_latency_ms(case) or 0) > 0]
    return max(timed, key=lambda case: _latency_ms(case) or 0.0, default=None)


def most_changed(night: Night) -> CaseReport | None:
    """The case whose latency changed most, either way; None where none did."""
    changed = [case for case in _timed(night) if _change(case)]
    return max(changed, key=_change, default=None)


def operator_trace(case: CaseReport) -> str:
    """The trace of a case, as JSON."""
    return benchmark.document(_events(case))


def _timed(night: Night) -> list[CaseReport]:
    return [case for device in night.devices for case in device.cases if case.row and case.row.ops]


def _latency_ms(case: CaseReport) -> float | None:
    latencies_ms = (report.judgement.value for report in case.series if report.key.metric == Metric.LATENCY)
    latency_ms = next(latencies_ms, None)
    return latency_ms if latency_ms is not None and math.isfinite(latency_ms) else None


def _change(case: CaseReport) -> float:
    """How far latency is from its baseline, as a logarithm, so that half and double are alike."""
    ratios = [1 + report.judgement.relative_change for report in case.series if report.key.metric == Metric.LATENCY]
    return abs(math.log(ratios[0])) if ratios and ratios[0] > 0 else 0.0


def _events(case: CaseReport) -> Iterator[benchmark.Event]:
    yield benchmark.label(PROCESS, 0, "process_name", word(f"{case_title(case.case)} on {case.case.unit}"))
    for thread, (name, row) in enumerate((("tonight", case.row), ("before", case.before)), 1):
        if row and row.ops:
            yield benchmark.label(PROCESS, thread, "thread_name", f"{name}, {row.time}")
            yield from _spans(row, thread)


def _spans(row: NightlyRow, thread: int) -> Iterator[benchmark.Event]:
    start_ms = 0.0
    for op in row.ops:
        if math.isfinite(op.avg_ms):
            shown = {"average_ms": op.avg_ms}
            yield benchmark.span(word(op.name), word(op.type), (PROCESS, thread), (start_ms, op.avg_ms), shown)
            start_ms += op.avg_ms
