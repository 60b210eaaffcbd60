"""Rows of `farm compare`: A compared with B."""

import dataclasses
import enum
from typing import Literal

from pydantic import Field

from farm.rows.latency import Latency
from farm.rows.nightly import Block
from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.run import OutputComparison, RunFigures, RunRow

SideKind = Literal["run", "model", "build", "engine"]


class ComparisonOutcome(enum.StrEnum):
    """The decision on B against A; `slower` is the confirmed regression."""

    NONE = "none"  # not compared
    SAME = "same"
    UNDECIDED = "undecided"  # probably a difference, not certain enough yet
    TOO_SMALL = "too_small"  # there is a difference, of less than what counts
    FASTER = "faster"
    SLOWER = "slower"


class Side(Record):
    """One of the two compared things: what the user called it, and what it is.

    `commit` and `changed` (there were changes since) tell of a build, `run` of a stored run. Times are medians over
    the blocks; `latency_ms` is over all samples of blocks that count.
    """

    name: str = ""
    kind: SideKind = "build"
    commit: str = ""
    changed: bool = False
    run: int | None = None
    model: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    fingerprint: dict[str, str] = Field(default_factory=dict)
    latency_ms: Latency | None = None
    init_ms: Figure = None
    first_ms: Figure = None
    memory_bytes: dict[str, int] = Field(default_factory=dict)


class OperatorDifference(Record):
    """An operator whose time differs between A and B, in milliseconds; null on the side that does not have it.

    `low_ms` and `high_ms` bound the differences of all operators together with a probability of 95 %.
    """

    name: str
    type: str
    a_ms: Figure = None
    b_ms: Figure = None
    difference_ms: float
    low_ms: Figure = None
    high_ms: Figure = None


class CompareFigures(Record):
    """The difference between A and B.

    `ratio` is B over A with its 95 % confidence interval; `p_value` is that of signed ranks over the turns, of stored
    runs Mann-Whitney's over their blocks; `effect`, -1 to 1: how much oftener B takes longer. `smallest_percent` is
    what would have been found in nine of ten comparisons. `notes` say what else differs. `blocks` are what was measured
    for this row, arm `a` and `b`; stored runs have theirs already. `operators` are those that differ beyond their
    noise, where they were timed.
    """

    a: Side = Side()
    b: Side = Side()
    outcome: ComparisonOutcome = ComparisonOutcome.NONE
    verdict: str = ""
    ratio: Figure = None
    ratio_ci: tuple[float, float] | None = None
    p_value: Figure = None
    effect: Figure = None
    smallest_percent: Figure = None
    margin_percent: float = 0.0
    notes: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    operators: tuple[OperatorDifference, ...] = ()


class CompareRow(CompareFigures, RunRow):
    """A compared with B: one model in one runtime on one unit.

    The figures of outputs are B's against A's; `latency_ms`, `init_ms`, `first_ms` and `memory_bytes` are B's.
    """

    job: str = "compare"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareResult(Result[CompareRow]):
    """What `farm compare` finds of a model."""

    figures: RunFigures
    comparison: OutputComparison = dataclasses.field(default_factory=OutputComparison)
    compared: CompareFigures
