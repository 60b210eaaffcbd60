"""The eight sections of a model benchmark as tables, with the columns that MACE users know."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from farm.rows.benchmark import BenchmarkRow, MacsSummary, OperatorType, ProfiledOperator, Rounds
from farm.rows.profile import by_time
from farm.tables.execution import memory_table
from farm.tables.table import Table, shape

ROUND_COLUMNS = ("round", "first(ms)", "curr(ms)", "min(ms)", "max(ms)", "avg(ms)", "std")
OPERATOR_COLUMNS = (
    *("Op Type", "Start", "First", "Avg(ms)", "%", "cdf%", "GMACPS"),
    *("Stride", "Pad", "Filter Shape", "Output Shape", "Dilation", "name"),
)
TYPE_COLUMNS = ("Op Type", "Count", "Avg(ms)", "%", "cdf%", "MACs", "GMACPS", "Called times")
MACS_COLUMNS = ("total", "round", "first(G/s)", "avg(G/s)", "std")
LEFT = frozenset({"Op Type", "name"})


def sections(row: BenchmarkRow) -> Iterator[Table]:
    """The sections that the row has, in order."""
    rounds = (
        ("Warm Up", row.warm_up),
        ("Run without statistics", row.without_statistics),
        ("Run with statistics", row.with_statistics),
    )
    yield from (_rounds(title, times) for title, times in rounds if times)
    if row.ops:
        yield _operators("Sort by Run Order", row.ops)
        yield _operators("Sort by Computation Time", by_time(row.ops))
        yield _types(row.op_types)
    if row.macs:
        yield _macs(row.macs)
    if row.ops_summary:
        yield _rounds("Summary of Ops' Stat", row.ops_summary)
    yield from memory_table([row], "Memory")


def _rounds(title: str, rounds: Rounds) -> Table:
    times = (rounds.first_ms, rounds.curr_ms, rounds.min_ms, rounds.max_ms, rounds.avg_ms, rounds.std_ms)
    return Table(title, ROUND_COLUMNS, [[str(rounds.round), *_decimals(times)]])


def _operators(title: str, ops: Sequence[ProfiledOperator]) -> Table:
    return Table(title, OPERATOR_COLUMNS, [_operator(op) for op in ops], LEFT, keys=("name",))


def _operator(op: ProfiledOperator) -> list[str]:
    figures = _decimals((op.start_ms, op.first_ms, op.avg_ms, op.percent, op.cdf_percent, op.gmacps))
    shapes = map(shape, (op.stride, op.pad, op.filter_shape, op.output_shape, op.dilation))
    return [op.type, *figures, *shapes, op.name]


def _types(types: Sequence[OperatorType]) -> Table:
    return Table("Stat by Op Type", TYPE_COLUMNS, [_type(kind) for kind in types], LEFT)


def _type(kind: OperatorType) -> list[str]:
    figures = _decimals((kind.avg_ms, kind.percent, kind.cdf_percent))
    return [kind.type, str(kind.count), *figures, f"{kind.macs:,}", f"{kind.gmacps:.3f}", str(kind.called_times)]


def _macs(macs: MacsSummary) -> Table:
    rates = _decimals((macs.first_gmacps, macs.avg_gmacps, macs.std_gmacps))
    return Table("Stat by MACs(Multiply-Accumulation)", MACS_COLUMNS, [[f"{macs.total:,}", str(macs.round), *rates]])


def _decimals(values: Sequence[float]) -> list[str]:
    return [f"{value:.3f}" for value in values]


# ProfiledOperator times in the trace event format that chrome://tracing and Perfetto open.
#
# Source: Trace Event Format, complete events (`ph: X`, times in microseconds) and metadata events (`ph: M`).
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
        yield _traced_operator(process, op)


def _traced_operator(process: int, op: ProfiledOperator) -> Event:
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
