"""Rows of a nightly run: what one case gave, block by block."""

import dataclasses

from pydantic import Field

from farm.rows.duet import DuetFigures
from farm.rows.nightly_block import Block as Block
from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.run import OutputComparison, RunFigures, RunRow


class OperatorTime(Record):
    """How long an operator takes on average."""

    name: str
    type: str
    avg_ms: float


class NightlyFigures(Record):
    """What a nightly run measured of a case, beside what a single run would.

    `identity` tells one piece of hardware from another of the same model; `passive` that it has no fan (a battery).
    `tuned_ratio` is the latency with the stored tuned files over that without, measured in turns, with its 95 %
    confidence interval; `tuned_verdict` says in words whether these files are still good. `duet` compares tonight's
    software with that of an earlier night; None: the run keeps no bundles. `busy_s` is how long it all took without it.
    """

    setting: str = "default"
    identity: str = ""
    passive: bool = False
    blocks: tuple[Block, ...] = ()
    ops: tuple[OperatorTime, ...] = ()
    file_bytes: dict[str, int] = Field(default_factory=dict)
    tuned_ratio: Figure = None
    tuned_ratio_ci: tuple[float, float] | None = None
    tuned_verdict: str = ""
    duet: DuetFigures | None = None
    busy_s: float = 0.0


class NightlyRow(NightlyFigures, RunRow):
    """One case of a nightly run: a model in one runtime and setting on one unit."""

    job: str = "nightly"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NightlyResult(Result[NightlyRow]):
    """What a nightly run measured of a case."""

    figures: RunFigures = dataclasses.field(default_factory=RunFigures)
    comparison: OutputComparison = dataclasses.field(default_factory=OutputComparison)
    night: NightlyFigures
