"""Rows of `farm benchmark`: a model's rounds, its operators in order and by type, its multiply-accumulates."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from pydantic import Field

from farm.rows.execution import ExecutionFigures
from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.row import Row
from farm.rows.run import KernelsUse, NoFile, SelectionUse, TunedUse

NS_PER_MS = 1e6
KEPT_ROUNDS = 1000


class Rounds(Record):
    """Times of some rounds: their number, the first and last of them, and their distribution."""

    round: int
    first_ms: float
    curr_ms: float
    min_ms: float
    max_ms: float
    avg_ms: float
    std_ms: float

    @classmethod
    def of(cls, samples_ns: Sequence[float]) -> Rounds:
        """Statistics of at least one round."""
        ms = [sample / NS_PER_MS for sample in samples_ns]
        return cls(
            round=len(ms),
            first_ms=ms[0],
            curr_ms=ms[-1],
            min_ms=min(ms),
            max_ms=max(ms),
            avg_ms=statistics.fmean(ms),
            std_ms=statistics.pstdev(ms),
        )


class ProfiledOperator(Record):
    """One operator (a step of the plan). `percent` is its share of all operators' time; `start_ms` and `last_ms` are of
    the last round. `reads` are the operators whose results it reads, by their place in the run order; `moved_bytes` is
    what its tensors take, weights among them. Both are empty where the plan does not tell.
    """

    name: str
    type: str
    device: str
    start_ms: float
    first_ms: float
    last_ms: float
    avg_ms: float
    percent: float
    cdf_percent: float
    macs: int
    gmacps: float
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    filter_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dilation: tuple[int, ...]
    note: str
    reads: tuple[int, ...] = ()
    moved_bytes: int = 0


class OperatorType(Record):
    """All operators of one type, `called_times` in all rounds."""

    type: str
    count: int
    avg_ms: float
    percent: float
    cdf_percent: float
    macs: int
    gmacps: float
    called_times: int


class MacsSummary(Record):
    """Multiply-accumulates of the model, and how many 10^9 of them ran a second."""

    total: int
    round: int
    first_gmacps: float
    avg_gmacps: float
    std_gmacps: float


class LoadFigures(ExecutionFigures):
    """What loading the model took, whether farmrt used the files of tuning, and how it was executed."""

    init_ms: Figure = None
    memory_bytes: dict[str, int] = Field(default_factory=dict)
    tuned: TunedUse | NoFile = NoFile()
    kernels: KernelsUse | NoFile = NoFile()
    selection: SelectionUse | NoFile = NoFile()


class PlainRounds(Record):
    """Rounds without operator statistics: before the measured ones, and those.

    `round_ms` are the times of the measured ones in order; of more than `KEPT_ROUNDS` so many, evenly spread.
    """

    warm_up: Rounds | None = None
    without_statistics: Rounds | None = None
    round_ms: tuple[float, ...] = ()

    @classmethod
    def of(cls, warm_up_ns: Sequence[float], samples_ns: Sequence[float]) -> PlainRounds:
        """Statistics of at least one round of each."""
        kept = samples_ns[:: -(-len(samples_ns) // KEPT_ROUNDS)]
        return cls(
            warm_up=Rounds.of(warm_up_ns),
            without_statistics=Rounds.of(samples_ns),
            round_ms=tuple(round(sample / NS_PER_MS, 6) for sample in kept),
        )


class ProfiledRounds(Record):
    """Rounds with the time of each operator.

    `sum_to_wall` is the operators' sum as a share of the wall time, the median over the profiled rounds;
    `timed_by_host` says why the host's clock timed each launch, empty where the GPU's did.
    """

    with_statistics: Rounds | None = None
    ops: tuple[ProfiledOperator, ...] = ()
    op_types: tuple[OperatorType, ...] = ()
    macs: MacsSummary | None = None
    ops_summary: Rounds | None = None
    sum_to_wall: Figure = None
    timed_by_host: str = ""


class BenchmarkRow(ProfiledRounds, PlainRounds, LoadFigures, Row):
    """The eight sections of a model benchmark."""

    job: str = "benchmark"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BenchmarkResult(Result[BenchmarkRow]):
    """What `farm benchmark` measures of a model."""

    load: LoadFigures
    plain: PlainRounds
    profiled: ProfiledRounds
