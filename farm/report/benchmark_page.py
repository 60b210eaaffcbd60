"""`farm benchmark --html`: the profile of each model as one file that loads nothing from elsewhere.

Graph with the time of each node, timeline, roofline, histogram of rounds, conditions. All pictures are made here, so
that the page needs no script to be read.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from farm.report.branch_lanes import lanes_of
from farm.report.figures import digits, milliseconds, moment
from farm.report.single_file import single_file_page
from farm.rows.benchmark import BenchmarkRow, ProfiledOperator
from farm.rows.core_waits import busy_text
from farm.rows.device_state import DeviceState
from farm.rows.profile import by_time
from farm.rows.row import played_note
from farm.rows.status import Status
from farm.safe_text import word
from farm.tables.table import shape, size

ROW_PX, LANE_PX, MOST_GRAPH_PX = 26, 14, 140
MOST_BINS = 40
SLOWEST = 8
ROOF_WIDTH, ROOF_HEIGHT, ROOF_LEFT, ROOF_FOOT = 360, 260, 46, 34
QUANTILES = {"Fastest": 0.0, "Median": 0.5, "90 % within": 0.9, "99 % within": 0.99, "Slowest": 1.0}
BYTES_PER_MS_OF_GB = 1e6  # of 1 GB/s


@dataclasses.dataclass(frozen=True)
class DrawnNode:
    """An operator in the list beside the graph. `heat` is its time over that of the slowest, in percent."""

    number: int
    name: str
    type: str
    device: str
    time: str
    share: str
    heat: float
    shape: str
    rate: str
    note: str


@dataclasses.dataclass(frozen=True)
class DrawnGraph:
    """The graph as SVG elements beside its nodes: paths of edges, and (x, y) of nodes."""

    width: int
    height: int
    paths: Sequence[str]
    points: Sequence[tuple[float, float]]
    nodes: Sequence[DrawnNode]


@dataclasses.dataclass(frozen=True)
class TimeSpan:
    """An operator on the timeline: left edge and width in percent of the round."""

    left: float
    width: float
    device: str
    title: str


@dataclasses.dataclass(frozen=True)
class Roofline:
    """Operators by intensity and rate, below the best rate and the best bandwidth that any of them reached.

    `ticks_x` and `ticks_y` are (place, text); `points` are (x, y, radius, title, device).
    """

    points: Sequence[tuple[float, float, float, str, str]]
    roof: str
    ticks_x: Sequence[tuple[float, str]]
    ticks_y: Sequence[tuple[float, str]]
    best_rate: str
    best_bandwidth: str


@dataclasses.dataclass(frozen=True)
class Bin:
    """A bar of the histogram: how many rounds, and its height in percent of the highest."""

    title: str
    count: int
    height: float


def benchmark_page(rows: Sequence[BenchmarkRow]) -> str:
    """The page of all rows, failures included."""
    views = [_view(row, f"model-{number}") for number, row in enumerate(rows, 1)]
    return single_file_page("benchmark.html", ("benchmark.css",), views)


def _view(row: BenchmarkRow, anchor: str) -> dict[str, Any]:
    common = {"anchor": anchor, "row": row, "is_ok": row.status == Status.OK, "facts": list(_facts(row))}
    if not row.ops or row.without_statistics is None:
        return {**common, "headline": f"{row.model} ({row.runtime}) on {row.unit}: {row.status}", "ops": ()}
    return {
        **common,
        "headline": _headline(row),
        "lead": _lead(row),
        "ops": row.ops,
        "slowest": _nodes(_slowest(row.ops), row.ops),
        "graph": graph_of(row.ops),
        "spans": spans_of(row.ops),
        "round_ms": milliseconds(max(op.start_ms + op.last_ms for op in row.ops)),
        "roofline": roofline_of(row.ops),
        "bins": bins_of(row.round_ms),
        "types": list(_types(row)),
        "quantiles": list(_quantiles(row.round_ms)),
    }


def _types(row: BenchmarkRow) -> Iterator[tuple[str, ...]]:
    for kind in row.op_types:
        yield kind.type, str(kind.count), milliseconds(kind.avg_ms), f"{kind.percent:.1f} %"


def _headline(row: BenchmarkRow) -> str:
    """`net (gpu) on pixel: 12.4 ms a round; conv7 takes 23.1 % of it`."""
    assert row.without_statistics
    middle = statistics.median(row.round_ms) if row.round_ms else row.without_statistics.avg_ms
    (slowest, *_) = by_time(row.ops, 1)
    takes = f"{slowest.name} takes {slowest.percent:.0f} % of the operators' time"
    return f"{row.model} ({row.runtime}) on {row.unit}: {milliseconds(middle)} a round; {takes}"


def _lead(row: BenchmarkRow) -> str:
    """Operators and their time by device."""
    parts = []
    for device in dict.fromkeys(op.device for op in row.ops):
        ops = [op for op in row.ops if op.device == device]
        parts.append(f"{len(ops)} operators on the {device.upper()} take {sum(op.percent for op in ops):.0f} %")
    rounds = row.without_statistics
    spread = f"rounds vary by {100 * rounds.std_ms / rounds.avg_ms:.1f} % (standard deviation)" if rounds else ""
    return "; ".join(filter(None, [", ".join(parts), spread, busy_text(row.waited_share)]))


def _slowest(ops: Sequence[ProfiledOperator]) -> list[tuple[int, ProfiledOperator]]:
    return sorted(enumerate(ops), key=lambda each: -each[1].avg_ms)[:SLOWEST]


def _nodes(shown: Iterable[tuple[int, ProfiledOperator]], ops: Sequence[ProfiledOperator]) -> list[DrawnNode]:
    """Those that are shown, with their numbers in the round."""
    most_ms = max(each.avg_ms for each in ops) or 1.0
    return [_node(number, op, most_ms) for number, op in shown]


def _node(number: int, op: ProfiledOperator, most_ms: float) -> DrawnNode:
    return DrawnNode(
        number=number,
        name=word(op.name, 80),
        type=word(op.type, 32),
        device=op.device,
        time=milliseconds(op.avg_ms),
        share=f"{op.percent:.1f} %",
        heat=round(100 * op.avg_ms / most_ms, 1),
        shape=shape(op.output_shape),
        rate=f"{digits(op.gmacps, 3)} GMAC/s" if op.macs else "",
        note=word(op.note, 120),
    )


def graph_of(ops: Sequence[ProfiledOperator]) -> DrawnGraph:
    """The graph of operators in run order; a chain where no plan told what reads what."""
    reads = [list(op.reads) for op in ops]
    if not any(reads):
        reads = [[number - 1] if number else [] for number in range(len(ops))]
    found = lanes_of(reads)
    lane_px = min(LANE_PX, MOST_GRAPH_PX / max(1, found.count))
    points = [(round((lane + 0.5) * lane_px, 1), (number + 0.5) * ROW_PX) for number, lane in enumerate(found.lanes)]
    paths = [_edge(points[source], points[node]) for source, node in found.edges]
    nodes = _nodes(enumerate(ops), ops)
    return DrawnGraph(math.ceil(found.count * lane_px), len(ops) * ROW_PX, paths, points, nodes)


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Down the lane of where it comes from, then over in the last row."""
    (x0, y0), (x1, y1) = start, end
    turn = y1 - ROW_PX
    return f"M{x0} {y0}V{turn}C{x0} {turn + ROW_PX / 2} {x1} {turn + ROW_PX / 2} {x1} {y1}"


def spans_of(ops: Sequence[ProfiledOperator]) -> list[TimeSpan]:
    """The last profiled round, operator by operator."""
    whole = max((op.start_ms + op.last_ms for op in ops), default=0.0) or 1.0
    return [
        TimeSpan(
            *(round(100 * op.start_ms / whole, 3), round(100 * op.last_ms / whole, 3), op.device),
            f"{word(op.name, 60)} ({word(op.type, 32)}): {milliseconds(op.last_ms)} from {milliseconds(op.start_ms)}",
        )
        for op in ops
    ]


def roofline_of(ops: Sequence[ProfiledOperator]) -> Roofline | None:
    """Multiply-accumulates a byte and a second of each operator; None where none has both."""
    known = [op for op in ops if op.macs and op.moved_bytes and op.avg_ms]
    if not known:
        return None
    xs = [op.macs / op.moved_bytes for op in known]
    ys = [op.gmacps for op in known]
    bandwidth = max(op.moved_bytes / op.avg_ms / BYTES_PER_MS_OF_GB for op in known)
    rate = max(ys)
    low_x, high_x = _decades(xs)
    low_y, high_y = _decades(ys)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low_x) / (high_x - low_x)
        up = (math.log10(y) - low_y) / (high_y - low_y)
        width, height = ROOF_WIDTH - ROOF_LEFT - 14, ROOF_HEIGHT - ROOF_FOOT - 8
        return round(ROOF_LEFT + across * width, 1), round(8 + (1 - up) * height, 1)

    share = max(op.percent for op in known) or 1.0
    points = [
        (
            *place(x, y),
            round(2.5 + 5.5 * math.sqrt(op.percent / share), 1),
            f"{word(op.name, 60)}: {digits(y, 3)} GMAC/s at {digits(x, 3)} MAC a byte, {op.percent:.1f} % of the time",
            op.device,
        )
        for op, x, y in zip(known, xs, ys, strict=True)
    ]
    left, ridge, right = 10.0**low_x, rate / bandwidth, max(10.0**high_x, rate / bandwidth)
    roof = [place(left, bandwidth * left), place(ridge, rate), place(right, rate)]  # its picture is clipped
    return Roofline(
        points,
        " ".join(f"{x},{y}" for x, y in roof),
        [(place(10.0**each, 10.0**low_y)[0], _power(each)) for each in range(low_x, high_x + 1)],
        [(place(10.0**low_x, 10.0**each)[1], _power(each)) for each in range(low_y, high_y + 1)],
        f"{digits(rate, 3)} GMAC/s",
        f"{digits(bandwidth, 3)} GB/s",
    )


def _decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten that enclose them, at least one apart."""
    logs = [math.log10(value) for value in values if value > 0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -3 <= exponent <= 4 else f"1e{exponent}"


def bins_of(round_ms: Sequence[float]) -> list[Bin]:
    """The rounds by their time; by the rule of the square root, from the fastest to the slowest."""
    if not round_ms:
        return []
    low, high = min(round_ms), max(round_ms)
    count = min(MOST_BINS, math.ceil(math.sqrt(len(round_ms)))) if high > low else 1
    width = (high - low) / count or 1.0
    counts = [0] * count
    for value in round_ms:
        counts[min(int((value - low) / width), count - 1)] += 1
    return [
        Bin(
            f"{milliseconds(low + at * width)} to {milliseconds(min(low + (at + 1) * width, high))}: {number} rounds",
            number,
            round(100 * number / max(counts), 1),
        )
        for at, number in enumerate(counts)
    ]


def _quantiles(round_ms: Sequence[float]) -> Iterator[tuple[str, str]]:
    if not round_ms:
        return
    ordered = sorted(round_ms)
    for name, share in QUANTILES.items():
        value = statistics.median(ordered) if share == 0.5 else ordered[math.ceil(share * (len(ordered) - 1))]
        yield name, milliseconds(value)


def _facts(row: BenchmarkRow) -> Iterator[tuple[str, str]]:
    """The conditions that the figures hold for."""
    yield from (("Unit", row.unit), ("Model of the unit", row.device_model), ("SoC", row.soc))
    yield "When", moment(row.time)
    names = {"gpu": "GPU", "driver": "Driver", "opencl": "OpenCL", "source_hash": "Kernel sources"}
    yield from ((names[name], value) for name, value in row.fingerprint.items() if name in names and value)
    if note := played_note(row.fingerprint, row.runtime):
        yield "Times", note
    for name, value in row.settings.items():
        yield (
            word(name.replace("_", " ").capitalize().replace("opencl", "OpenCL").replace("Opencl", "OpenCL"), 32),
            word(value, 60),
        )
    if row.init_ms is not None:
        yield "Initialisation", milliseconds(row.init_ms)
    if row.memory_bytes:
        yield "Memory by plan", size(sum(row.memory_bytes.values()))
    yield from state_facts(row.state_before, row.state_after)
    if row.waited_share is not None:
        yield "Waited for a core", f"{100 * row.waited_share:.1f} % of the rounds' time"
    yield "Slowed down", row.throttled or "no"
    if row.sum_to_wall is not None:
        yield "Operators' sum / wall time", f"{row.sum_to_wall:.3f}"
    yield from ((name, version) for name, version in sorted(row.versions.items()))


def state_facts(before: DeviceState | None, after: DeviceState | None) -> Iterator[tuple[str, str]]:
    """Temperature, battery and load, before and after."""
    for title, name, unit in (
        ("Temperature", "temperature_c", "°C"),
        ("Battery", "battery_percent", "%"),
        ("Load average", "load_average", ""),
        ("Free memory", "free_memory_bytes", "bytes"),
    ):
        values = [getattr(state, name) for state in (before, after) if state and getattr(state, name) is not None]
        shown = [size(int(value)) if unit == "bytes" else f"{value:g} {unit}".strip() for value in values]
        if shown:
            yield title, " to ".join(dict.fromkeys(shown))
