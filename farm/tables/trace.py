"""ProfiledOperator times in the trace event format that chrome://tracing and Perfetto open.

Source: Trace Event Format, complete events (`ph: X`, times in microseconds) and metadata events (`ph: M`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from farm.rows.benchmark import BenchmarkRow, ProfiledOperator

THREADS = {"gpu": 1, "cpu": 2}
US_PER_MS = 1000.0

Event = dict[str, Any]


def trace_json(rows: Sequence[BenchmarkRow]) -> str:
    """The last round of each row: a row is a process, a device one of its threads."""
    events = [event for process, row in enumerate(rows, 1) for event in _events(process, row)]
    return document(events)


def document(events: Iterable[Event]) -> str:
    """The file of these events."""
    return json.dumps({"traceEvents": list(events), "displayTimeUnit": "ms"}, allow_nan=False)


def _events(process: int, row: BenchmarkRow) -> Iterator[Event]:
    yield label(process, 0, "process_name", f"{row.model} on {row.unit} ({row.runtime})")
    for device in sorted({op.device for op in row.ops}):
        yield label(process, THREADS[device], "thread_name", device)
    for op in row.ops:
        yield _operator(process, op)


def _operator(process: int, op: ProfiledOperator) -> Event:
    shown = op.model_dump(mode="json", exclude={"name", "start_ms", "percent", "cdf_percent"})
    return span(op.name, op.type, (process, THREADS[op.device]), (op.start_ms, op.last_ms), shown)


def span(name: str, category: str, track: tuple[int, int], times_ms: tuple[float, float], shown: Event) -> Event:
    """What took a time on a track (process, thread): `times_ms` are its start and its duration."""
    start_ms, duration_ms = times_ms
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": track[0],
        "tid": track[1],
        "ts": start_ms * US_PER_MS,
        "dur": duration_ms * US_PER_MS,
        "args": shown,
    }


def label(process: int, thread: int, kind: str, name: str) -> Event:
    """Names a process (`process_name`, thread 0) or a thread (`thread_name`)."""
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
