"""Rows of `farm engines`: a model in each engine on a unit, and which of them is the fastest there."""

import dataclasses

from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.run import OutputComparison, RunFigures, RunRow


class Standing(Record):
    """Where an engine stands among those that were measured in turns and answer rightly.

    `ratio` is its time over the leader's, with the interval of that; None of the leader itself, and the interval where
    there were too few turns. `is_fastest`: it leads, and every other one's interval says that this one is slower.
    """

    ratio: Figure = None
    ratio_ci: tuple[float, float] | None = None
    leads: bool = False
    is_fastest: bool = False


class EngineTurns(Record):
    """Medians of an engine's blocks, one a turn; its standing, None where it did not take part to the end."""

    blocks_ms: tuple[float, ...] = ()
    standing: Standing | None = None


class EnginesRow(EngineTurns, RunRow):
    """A model in one engine and runtime; `latency_ms` is of the rounds of all its blocks."""

    job: str = "engines"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnginesResult(Result[EnginesRow]):
    """What `farm engines` measures of a model in an engine."""

    figures: RunFigures
    comparison: OutputComparison
    turns: EngineTurns
