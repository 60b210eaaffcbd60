"""The eight sections of a model benchmark as tables, with the columns that MACE users know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
