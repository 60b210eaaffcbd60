"""Series: one figure of one model on one unit, night after night. Pure values, made from the rows of nightly runs."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from farm.rows.nightly import Block, NightlyRow
from farm.rows.row import OWN_ENGINE, runner
from farm.rows.run import EngineFigure
from farm.rows.status import Status

FIGURE = "figure"  # begins the metric of a program's figure


class Nature(enum.StrEnum):
    """How a metric varies when nothing has changed."""

    TIMED = "timed"  # noise in proportion to the value, of times and of what programs tell: judged by ratios
    QUALITY = "quality"  # nearly the same each time; a driver's arithmetic may move it a little
    EXACT = "exact"  # the same each time


@dataclasses.dataclass(frozen=True)
class MetricInfo:
    """What a metric is: its name for people, its unit of measure, how it varies, and which way is better."""

    title: str
    unit: str
    nature: Nature
    lower_is_better: bool = True


class Metric(enum.StrEnum):
    """What is followed; beside these the figures of users' programs, whose words say all that there is to know."""

    LATENCY = "latency_ms"
    INIT = "init_ms"
    FIRST = "first_ms"
    COSINE = "cosine"
    SQNR = "sqnr_db"
    MAX_ERROR = "max_abs_error"
    NAN = "nan_count"
    MEMORY = "memory_bytes"
    FILES = "file_bytes"
    TUNED_RATIO = "tuned_ratio"

    @classmethod
    def of_figure(cls, figure: EngineFigure) -> Metric:
        """That of a program's figure, such as `figure:up:prompt:tokens/s`."""
        return cls(f"{FIGURE}:{figure.better}:{figure.name}:{figure.unit}")

    @classmethod
    def _missing_(cls, value: object) -> Metric | None:
        if not isinstance(value, str) or not re.fullmatch(rf"{FIGURE}:(up|down):[^:]+:.*", value):
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member

    def __reduce_ex__(self, protocol: object) -> tuple[type[Metric], tuple[str]]:
        """By its word: Python 3.11.2 looks for a member of this name, which a figure is not."""
        return type(self), (self._value_,)

    @property
    def info(self) -> MetricInfo:
        """What it is."""
        if self in _INFO:
            return _INFO[self]
        _, better, name, unit = self.split(":", 3)
        return MetricInfo(name, unit, Nature.TIMED, lower_is_better=better == "down")


_INFO = {
    Metric.LATENCY: MetricInfo("Latency", "ms", Nature.TIMED),
    Metric.INIT: MetricInfo("Initialisation", "ms", Nature.TIMED),
    Metric.FIRST: MetricInfo("First run", "ms", Nature.TIMED),
    Metric.COSINE: MetricInfo("Cosine similarity", "", Nature.QUALITY, lower_is_better=False),
    Metric.SQNR: MetricInfo("SQNR", "dB", Nature.QUALITY, lower_is_better=False),
    Metric.MAX_ERROR: MetricInfo("Largest error", "", Nature.QUALITY),
    Metric.NAN: MetricInfo("NaN", "", Nature.EXACT),
    Metric.MEMORY: MetricInfo("Memory", "bytes", Nature.EXACT),
    Metric.FILES: MetricInfo("Files", "bytes", Nature.EXACT),
    Metric.TUNED_RATIO: MetricInfo("Tuned / default", "", Nature.TIMED),
}


@dataclasses.dataclass(frozen=True, order=True)
class Case:
    """What is measured each night: a model in one runtime and setting of an engine on one unit."""

    unit: str
    library: str
    model: str
    runtime: str
    setting: str
    engine: str = OWN_ENGINE

    @property
    def runner(self) -> str:
        """Its runtime and engine for people."""
        return runner(self.runtime, self.engine)

    def __str__(self) -> str:
        return f"{self.model} ({self.runner}, {self.setting}) on {self.unit}"


@dataclasses.dataclass(frozen=True, order=True)
class SeriesKey:
    """One metric of a case."""

    case: Case
    metric: Metric

    def __str__(self) -> str:
        return f"{self.metric} of {self.case}"


@dataclasses.dataclass(frozen=True)
class Point:
    """One night of a series.

    Attributes:
        run: the night's run, as the store counts them.
        time: when, ISO 8601 in UTC.
        runs: the independent measurements of the night that nothing spoiled, in order (medians of blocks for latency).
        arms: `a` or `b` for each of them: the A/A control, two labels of the very same thing.
        reruns: how many of them, at the end, were made to confirm what the others showed.
        spoiled: why measurements were left out (throttled, say); empty when none was.
        status: of the row; `reason` where it is not ok.
        identity: which piece of hardware it was (serial); a change of it begins the series anew.
        fingerprint: hash of the driver's and kernels' versions.
        passive: cooled passively (it has a battery): hot nights are to be expected that no sensor shows.
    """

    run: int
    time: str
    runs: tuple[float, ...]
    arms: tuple[str, ...] = ()
    reruns: int = 0
    spoiled: str = ""
    status: str = Status.OK
    reason: str = ""
    identity: str = ""
    fingerprint: str = ""
    commit: str = ""
    temperature_c: float | None = None
    passive: bool = False

    @property
    def value(self) -> float | None:
        """The night's figure; None where there is none."""
        return trimmed_mean(self.runs) if self.runs else None

    def with_members(self, **members: Any) -> Point:
        """The same with other members, in a fifth of the time of `dataclasses.replace`."""
        other = object.__new__(Point)
        other.__dict__.update(self.__dict__, **members)
        return other


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without a fifth of the values on either end, at least one of three: odd ones do not move it much."""
    if len(values) == 1:
        return values[0]
    ordered = sorted(values)
    cut = max(len(ordered) // 5, 1) if len(ordered) > 2 else 0
    return statistics.fmean(ordered[cut : len(ordered) - cut])


Series = Mapping[SeriesKey, Sequence[Point]]


def case_of(row: NightlyRow) -> Case:
    """The case of a row."""
    return Case(row.unit, row.library, row.model, row.runtime, row.setting, row.engine)


def digest(value: Any) -> str:
    """Twelve hexadecimal digits that tell values apart."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def points_of(row: NightlyRow, run: int, commit: str = "") -> dict[SeriesKey, Point]:
    """The points of a row: of each metric that it has figures of; of a failed row one point of its latency."""
    case = case_of(row)
    common: dict[str, Any] = {
        "run": run,
        "time": row.time,
        "status": str(row.status),
        "reason": row.reason,
        "identity": row.identity,
        "fingerprint": digest(row.fingerprint) if row.fingerprint else "",
        "commit": commit,
        "temperature_c": highest_temperature_c(row.blocks),
        "passive": row.passive,
    }
    good = [block for block in row.blocks if not block.throttled]
    spoiled = "; ".join(dict.fromkeys(block.throttled for block in row.blocks if block.throttled))
    arms, reruns = tuple(block.arm for block in good), sum(block.rerun for block in good)
    every = _timed(row.figures, row.blocks)
    timed = every if len(good) == len(row.blocks) else _timed(row.figures, good)
    told = {metric for metric, runs in every.items() if runs}
    if row.status != Status.OK:
        told.add(Metric.LATENCY)
    points = {
        metric: Point(runs=tuple(runs), arms=arms, reruns=reruns, spoiled=spoiled, **common)
        for metric, runs in timed.items()
        if metric in told
    }
    for metric, value in _single_figures(row).items():
        points[metric] = Point(runs=(value,), arms=("",), **common)
    return {SeriesKey(case, metric): point for metric, point in points.items()}


def _timed(figures: Iterable[EngineFigure], blocks: Sequence[Block]) -> dict[Metric, list[float]]:
    """Each block's figure of each metric that blocks have; an engine may tell of some alone."""
    return {
        Metric.LATENCY: [statistics.median(block.samples) for block in blocks if block.samples],
        Metric.INIT: [block.init_ms for block in blocks if block.init_ms is not None],
        Metric.FIRST: [block.first_ms for block in blocks if block.first_ms is not None],
        **{
            Metric.of_figure(figure): [block.figures[figure.name] for block in blocks if figure.name in block.figures]
            for figure in figures
        },
    }


def _single_figures(row: NightlyRow) -> dict[Metric, float]:
    """Figures that a night has one of."""
    figures: dict[Metric, float | None] = {
        Metric.COSINE: row.cosine,
        Metric.SQNR: row.sqnr_db,
        Metric.MAX_ERROR: row.max_abs_error,
        Metric.NAN: row.nan_count,
        Metric.MEMORY: sum(row.memory_bytes.values()) if row.memory_bytes else None,
        Metric.FILES: sum(row.file_bytes.values()) if row.file_bytes else None,
        Metric.TUNED_RATIO: row.tuned_ratio,
    }
    return {metric: float(value) for metric, value in figures.items() if value is not None}


def highest_temperature_c(blocks: Iterable[Block]) -> float | None:
    """The highest during the measurement of some blocks."""
    states = [state for block in blocks for state in (block.state_before, block.state_after)]
    return max((state.temperature_c for state in states if state.temperature_c is not None), default=None)
