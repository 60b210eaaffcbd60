"""Rows of `farm tune`: what tuning a model has gained."""

from __future__ import annotations

import dataclasses
import enum

from farm.rows.latency import Latency
from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.run import OutputComparison, RunFigures, RunRow


class TuneOutcome(enum.StrEnum):
    """What became of a model's search: NEW parameters are in force, KEPT left what was, NO_CHANGE tuned none."""

    NEW = "new"
    KEPT = "kept"
    NO_CHANGE = "no change"


class TuningAgreement(Record):
    """A further tuning from scratch, beside the first: what it chose, and how long the model takes with its table.

    `same_winners` of `launches` have the same candidate. `time_ratio` is the time with its table over that with the
    first one's, with the 95 % confidence interval where both ran in turns; 1 where the tables are the same.
    """

    launches: int = 0
    same_winners: int = 0
    time_ratio: Figure = None
    time_ratio_ci: tuple[float, float] | None = None
    throttled: str = ""


class TuneFigures(Record):
    """The gain of tuning, and what the search for it took.

    `gain_percent` is the time saved of the default's, with its 95 % confidence interval, `gain_on_incumbent_percent`
    that of the parameters that were in force before; fresh processes of all ran in turns. A model whose launches all
    keep their default has no gain. `outcome` says what was published, and `outcome_reason` why.
    `trials` and `device_s` are what the search measured anew, `launches_tuned` those whose default was beaten.
    `slow_state_ratio` and `slow_state_share`: where the unit had two speeds during the search, how far apart they are,
    and how often it was at the slow one.
    `agreements` compare each further tuning from scratch (`--repeat`) with the first, which is the one of this row.
    """

    outcome: TuneOutcome | None = None
    outcome_reason: str = ""
    default_ms: Figure = None
    tuned_ms: Figure = None
    incumbent_ms: Figure = None
    gain_percent: Figure = None
    gain_ci: tuple[float, float] | None = None
    gain_on_incumbent_percent: Figure = None
    gain_on_incumbent_ci: tuple[float, float] | None = None
    trials: int = 0
    device_s: float = 0.0
    artifacts: tuple[str, ...] = ()
    launches: int = 0
    launches_tuned: int = 0
    default_latency_ms: Latency | None = None
    default_init_ms: Figure = None
    slow_state_ratio: Figure = None
    slow_state_share: Figure = None
    agreements: tuple[TuningAgreement, ...] = ()


class TuneRow(TuneFigures, RunRow):
    """One tuning. `latency_ms`, `init_ms` and `first_ms` are those of the tuned model."""

    job: str = "tune"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneResult(Result[TuneRow]):
    """What `farm tune` measures of a model; all parts are empty where there is nothing to tune."""

    figures: RunFigures = dataclasses.field(default_factory=RunFigures)
    comparison: OutputComparison = dataclasses.field(default_factory=OutputComparison)
    tuning: TuneFigures = dataclasses.field(default_factory=TuneFigures)
