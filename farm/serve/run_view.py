"""What the page of one run shows, made of its stored rows: results, slowest operators, files and a log."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from farm.report.figures import NONE, milliseconds
from farm.rows.row import OWN_ENGINE, runner

MOST_ROWS = 300
MOST_MODELS = 8  # whose operators are listed
SLOWEST = 5
Data = Mapping[str, Any]  # a row as the store has it


@dataclasses.dataclass(frozen=True)
class ResultLine:
    """A row in words. `gain` is what tuning saved, or what changed; empty where the job has none."""

    time: str
    unit: str
    model: str
    runtime: str
    status: str
    reason: str
    latency: str
    gain: str


@dataclasses.dataclass(frozen=True)
class OperatorLine:
    """One of the slowest operators of a model."""

    name: str
    type: str
    time: str
    share: str


@dataclasses.dataclass(frozen=True)
class RunView:
    """The results in the order in which they came; the slowest operators of each model and unit; paths of files."""

    lines: Sequence[ResultLine]
    operators: Sequence[tuple[str, Sequence[OperatorLine]]]
    files: Sequence[str]
    is_cut: bool

    @property
    def failed(self) -> int:
        """How many rows are not ok."""
        return sum(line.status != "ok" for line in self.lines)


def run_view(rows: Iterator[Data]) -> RunView:
    """The view of a run's rows, of at most `MOST_ROWS`."""
    shown = list(itertools.islice(rows, MOST_ROWS + 1))
    kept = shown[:MOST_ROWS]
    with_operators = [row for row in kept if row.get("ops")][-MOST_MODELS:]
    files = dict.fromkeys(str(path) for row in kept for path in row.get("artifacts") or ())
    operators = [
        (f"{row.get('model')} ({row.get('runtime')}) on {row.get('unit')}", _slowest(row)) for row in with_operators
    ]
    return RunView([_line(row) for row in kept], operators, list(files), len(shown) > MOST_ROWS)


def runner_of(row: Data) -> str:
    """The runtime of a stored row for people, with an engine that is not farm's own."""
    return runner(str(row.get("runtime") or ""), str(row.get("engine") or OWN_ENGINE))


def _line(row: Data) -> ResultLine:
    words = {name: str(row.get(name) or "") for name in ("time", "unit", "model", "status", "reason")}
    return ResultLine(**words, runtime=runner_of(row), latency=milliseconds(_latency_ms(row)), gain=_gain(row))


def _latency_ms(row: Data) -> float | None:
    """The median of a round, or its mean where the job keeps no median; None where nothing was timed."""
    latency, rounds = row.get("latency_ms"), row.get("without_statistics")
    value = (
        latency.get("median")
        if isinstance(latency, dict)
        else rounds.get("avg_ms")
        if isinstance(rounds, dict)
        else None
    )
    return float(value) if isinstance(value, (int, float)) else None


def _gain(row: Data) -> str:
    """`12.3 % faster`, for tunings, comparisons and nights with tuned files; what became of it where that is all."""
    percent, ratio = row.get("gain_percent"), row.get("ratio") or row.get("tuned_ratio")
    if not isinstance(percent, (int, float)) and isinstance(ratio, (int, float)):
        percent = 100 * (1 - ratio)
    if not isinstance(percent, (int, float)):
        return str(row.get("outcome") or NONE)
    return f"{percent:.1f} % {'less time' if percent >= 0 else 'more time'}".replace("-", "")


def _slowest(row: Data) -> list[OperatorLine]:
    """Those that take most of the time, with their share of all operators' time."""
    ops = sorted(row["ops"], key=lambda op: -float(op.get("avg_ms") or 0.0))
    total = sum(float(op.get("avg_ms") or 0.0) for op in ops) or 1.0
    return [
        OperatorLine(
            *(str(op.get("name") or ""), str(op.get("type") or "")),
            *(milliseconds(float(op.get("avg_ms") or 0.0)), f"{100 * float(op.get('avg_ms') or 0.0) / total:.1f} %"),
        )
        for op in ops[:SLOWEST]
    ]
