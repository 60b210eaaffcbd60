"""Rows of `farm opbench`: the time of a single operator."""

import dataclasses

from farm.rows.execution import HintFigures
from farm.rows.record import Figure
from farm.rows.result import Result
from farm.rows.row import Row


class OpbenchFigures(HintFigures):
    """The time of one launch. `time_ns` is the median, `spread_percent` half the width of its 95 % interval.

    Where the unit had two speeds meanwhile, `slow_state_ratio` says how much longer the slow one takes and
    `slow_state_share` how often it was met: `time_ns` is then of no state alone. `ratio_to_default` compares a variant
    with the default that ran in turns with it, in the same state.
    """

    time_ns: Figure = None
    iterations: int | None = None
    input_mb_s: Figure = None
    gmacps: Figure = None
    spread_percent: Figure = None
    min_ns: Figure = None
    ratio_to_default: Figure = None
    slow_state_ratio: Figure = None
    slow_state_share: Figure = None


class OpbenchRow(OpbenchFigures, Row):
    """One benchmark; `model` is its name."""

    job: str = "opbench"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpbenchResult(Result[OpbenchRow]):
    """What `farm opbench` measures of a launch."""

    figures: OpbenchFigures = dataclasses.field(default_factory=OpbenchFigures)
