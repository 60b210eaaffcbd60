"""The rows of `farm engines` as a table a model and unit, and which engine is the fastest there, in words."""

import itertools
from collections.abc import Iterator, Sequence

from farm.rows.engines import EnginesRow
from farm.rows.status import Status
from farm.safe_text import word
from farm.tables.run_end import marked
from farm.tables.table import Table, milliseconds

COLUMNS = (
    *("Engine", "Runtime", "Outputs", "Median(ms)", "Over leader", "Interval"),
    *("Init(ms)", "First(ms)", "Peak(MB)", "Engine(MB)", "Model(MB)", "Nodes"),
)
LEFT = frozenset({"Engine", "Runtime", "Outputs", "Nodes"})
GIVES_WAY = ("Model(MB)", "Engine(MB)", "Nodes", "Peak(MB)", "First(ms)", "Init(ms)", "Interval")
BYTES_PER_MB = 1024**2


def engine_tables(rows: Sequence[EnginesRow]) -> list[Table]:
    """A table for each model and unit, the fastest engine first."""
    return [
        Table(f"{model} on {unit}", COLUMNS, list(map(_cells, in_order(group))), LEFT, GIVES_WAY)
        for (model, unit), group in model_groups(rows)
    ]


def fastest_lines(rows: Sequence[EnginesRow]) -> list[str]:
    """Which engine is the fastest for each model and unit; or that the intervals do not say which."""
    return [line for (model, unit), group in model_groups(rows) if (line := _fastest(model, unit, group))]


def model_groups(rows: Sequence[EnginesRow]) -> Iterator[tuple[tuple[str, str], list[EnginesRow]]]:
    """The rows of each model and unit."""

    def key(row: EnginesRow) -> tuple[str, str]:
        return row.model, row.unit

    return ((name, list(group)) for name, group in itertools.groupby(sorted(rows, key=key), key))


def _fastest(model: str, unit: str, rows: Sequence[EnginesRow]) -> str:
    ranked = [row for row in in_order(rows) if row.standing]
    if not ranked or len(ranked) < 2:
        return ""
    leader, *others = ranked
    assert leader.standing
    if leader.standing.is_fastest:
        second = others[0].standing
        assert second and second.ratio and second.ratio_ci
        low, high = second.ratio_ci
        by = f"{lane_name(others[0])} takes {second.ratio:.2f} times as long ({low:.2f} to {high:.2f})"
        return f"{model} on {unit}: {lane_name(leader)} is the fastest of {len(ranked)}: {by}"
    close = [row for row in others if row.standing and (row.standing.ratio_ci or (0.0, 0.0))[0] <= 1.0]
    return f"{model} on {unit}: {lane_name(leader)} leads, but not surely before {', '.join(map(lane_name, close))}"


def lane_name(row: EnginesRow) -> str:
    """`onnxruntime (cpu)`."""
    return f"{row.engine} ({row.runtime})"


def in_order(rows: Sequence[EnginesRow]) -> list[EnginesRow]:
    """The fastest first, those that gave up last."""
    return sorted(rows, key=_order)


def _order(row: EnginesRow) -> tuple[bool, float]:
    """Those in the race by their ratio, then those that gave up."""
    standing = row.standing
    return standing is None, 0.0 if standing is None or standing.leads else standing.ratio or 1.0


def _cells(row: EnginesRow) -> list[str]:
    latency, standing, peak = row.latency_ms, row.standing, row.peak_memory
    median = marked(milliseconds(latency.median), latency) if latency else "-"
    ratio = "-" if not standing else "1" if standing.leads else f"{standing.ratio:.2f}"
    interval = "-" if not standing or not standing.ratio_ci else "{:.2f} to {:.2f}".format(*standing.ratio_ci)
    sizes = (peak.resident_bytes if peak else None, row.file_bytes.get("engine"), row.file_bytes.get("model"))
    times = (milliseconds(row.init_ms), milliseconds(row.first_ms))
    told = (*times, *map(_megabytes, sizes), nodes_text(row) or "-")
    return [row.engine, row.runtime, outputs_text(row), median, ratio, interval, *told]


def outputs_text(row: EnginesRow) -> str:
    """Whether its outputs are right, and how far from the reference's."""
    if row.sqnr_db is None:
        return row.status.value
    return f"{'right' if row.status == Status.OK else row.status.value}, {row.sqnr_db:.0f} dB"


def nodes_text(row: EnginesRow) -> str:
    """How many nodes each provider or delegate took: `QNN 12, CPU 3`; empty where that is not told."""
    nodes = row.settings.get("nodes")
    if not isinstance(nodes, dict):
        return ""
    return ", ".join(f"{word(name.removesuffix('ExecutionProvider'), 24)} {count}" for name, count in nodes.items())


def _megabytes(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / BYTES_PER_MB:.1f}"
