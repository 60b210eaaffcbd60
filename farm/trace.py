"""Operator times in the trace event format that chrome://tracing and Perfetto open.

Source: Trace Event Format, complete events (`ph: X`, times in microseconds) and metadata events (`ph: M`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from farm.profile import BenchmarkRow, Operator

THREADS = {"gpu": 1, "cpu": 2}
US_PER_MS = 1000.0


def trace_json(rows: Sequence[BenchmarkRow]) -> str:
    """The last round of each row: a row is a process, a device one of its threads."""
    events = [event for process, row in enumerate(rows, 1) for event in _events(process, row)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False)


def _events(process: int, row: BenchmarkRow) -> Iterator[dict[str, Any]]:
    yield _name(process, 0, "process_name", f"{row.model} on {row.unit} ({row.runtime})")
    for device in sorted({op.device for op in row.ops}):
        yield _name(process, THREADS[device], "thread_name", device)
    for op in row.ops:
        yield _operator(process, op)


def _operator(process: int, op: Operator) -> dict[str, Any]:
    shown = op.model_dump(mode="json", exclude={"name", "start_ms", "percent", "cdf_percent"})
    return {
        "ph": "X",
        "name": op.name,
        "cat": op.type,
        "pid": process,
        "tid": THREADS[op.device],
        "ts": op.start_ms * US_PER_MS,
        "dur": op.last_ms * US_PER_MS,
        "args": shown,
    }


def _name(process: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
