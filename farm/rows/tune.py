"""Rows of `farm tune`: what tuning a model has gained."""

import dataclasses
import enum

from pydantic import Field

from farm.rows.latency import Latency
from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.run import OutputComparison, RunFigures, RunRow


class TuneOutcome(enum.StrEnum):
    """What became of a model's search: NEW parameters are in force, KEPT left what was, NO_CHANGE found none better
    than the defaults, NOT_TUNED tried none, as the budget was spent before.
    """

    NEW = "new"
    KEPT = "kept"
    NO_CHANGE = "no change"
    NOT_TUNED = "not tuned"


class ChoiceOutcome(enum.StrEnum):
    """What came of the choice over the whole graph: CHOSEN another plan to be tuned, SAME the one that was in force is
    the cheapest, REFUSED the chosen one was not as fast as the one in force, UNDECIDED there was no time to find out.
    """

    CHOSEN = "chosen"
    SAME = "same"
    REFUSED = "refused"
    UNDECIDED = "undecided"


class ChoiceFigures(Record):
    """A choice over the whole graph: what it promised, what it measured, and what it took to find.

    `predicted_ms` is by costs, `predicted_before_ms` that of the plan in force; `gap` is by how much the cheapest
    choice may be cheaper at most, as a share. `time_ratio` is the measured time over that of the plan in force,
    both with the tuned parameters in force, with its 95 % confidence interval. `places` counts operators by where they
    run and how, `origins` launches by where their costs come from, `conversions` what brings tensors into another
    storage or another element type (`casts`). Where the deployment file allows several data types, `data_type` is that
    of the choice, with `+` between those of a mixed plan, `by_data_type` has the predicted time of the cheapest choice
    in each (nothing where the budget ended before that was known), and `dropped` why the outputs in some are not
    accurate enough. `inaccurate`: why mixed plans that cost less were not, each; the next had to have less noise.
    """

    outcome: ChoiceOutcome
    reason: str = ""
    predicted_ms: Figure = None
    predicted_before_ms: Figure = None
    gap: Figure = None
    time_ratio: Figure = None
    time_ratio_ci: tuple[float, float] | None = None
    places: dict[str, int] = Field(default_factory=dict)
    origins: dict[str, int] = Field(default_factory=dict)
    conversions: int | None = None
    casts: int | None = None
    data_type: str = ""
    by_data_type: dict[str, float] = Field(default_factory=dict)
    dropped: dict[str, str] = Field(default_factory=dict)
    inaccurate: tuple[str, ...] = ()
    trials: int = 0
    device_s: float = 0.0
    budget_s: Figure = None


AGREE_PERCENT = 2.0  # two tunings agree where their times differ by no more


def tunings_agree(low: float, high: float) -> bool | None:
    """Whether tunings agree, by the interval of the one's time over the other's; None where that is too wide."""
    least, most = 1.0 - AGREE_PERCENT / 100.0, 1.0 + AGREE_PERCENT / 100.0
    if low >= least and high <= most:
        return True
    return False if low > most or high < least else None


class TuningAgreement(Record):
    """A further tuning from scratch, beside the first: what it chose, and how long the model takes with its table.

    `same_winners` of `launches` have the same candidate; of the others `tied_winners` have one that is as fast, within
    the noise of both searches. `time_ratio` is the time with its table over that with the first one's, with the 95 %
    confidence interval where both ran in turns; 1 where the tables are the same.
    """

    launches: int = 0
    same_winners: int = 0
    tied_winners: int = 0
    time_ratio: Figure = None
    time_ratio_ci: tuple[float, float] | None = None
    throttled: str = ""


class BuildAheadFigures(Record):
    """What came of building programs while others were measured.

    `hidden_s` of builds no trial waited for; beside a build the defaults took `slowdown` times as long, None where too
    few trials tell; `given_up`: nothing was built ahead any more because of that.
    """

    hidden_s: float = 0.0
    slowdown: Figure = None
    given_up: bool = False


class TuneFigures(Record):
    """The gain of tuning, and what the search for it took.

    `gain_percent` is the time saved of the default's, with its 95 % confidence interval, `gain_on_incumbent_percent`
    that of the parameters that were in force before; fresh processes of all ran in turns. A model whose launches all
    keep their default has no gain. `outcome` says what was published, and `outcome_reason` why. `tried` candidates
    beside the defaults are known; where a budget in seconds was asked for that is too short for ten trials of each
    launch of weight, `budget_needed_s` is one that would do.
    `trials` and `device_s` are what the search measured anew, `launches_tuned` those whose default was beaten.
    `slow_state_ratio` and `slow_state_share`: where the unit had two speeds during the search, how far apart they are,
    and how often it was at the slow one.
    `agreements` compare each further tuning from scratch (`--repeat`) with the first, which is the one of this row.
    `choice` is what came of the choice over the whole graph; None where it was not asked for.
    `build_ahead` is what came of building programs while others were measured; None where none was.
    `eight_bits` says which layers `quantize_within` left in float, and the noise that was measured.
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
    tried: int = 0
    budget_needed_s: Figure = None
    device_s: float = 0.0
    artifacts: tuple[str, ...] = ()
    launches: int = 0
    launches_tuned: int = 0
    default_latency_ms: Latency | None = None
    default_init_ms: Figure = None
    slow_state_ratio: Figure = None
    slow_state_share: Figure = None
    agreements: tuple[TuningAgreement, ...] = ()
    choice: ChoiceFigures | None = None
    build_ahead: BuildAheadFigures | None = None
    eight_bits: str = ""


class TuneRow(TuneFigures, RunRow):
    """One tuning. `latency_ms`, `init_ms` and `first_ms` are those of the tuned model."""

    job: str = "tune"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuneResult(Result[TuneRow]):
    """What `farm tune` measures of a model; all parts are empty where there is nothing to tune."""

    figures: RunFigures = dataclasses.field(default_factory=RunFigures)
    comparison: OutputComparison = dataclasses.field(default_factory=OutputComparison)
    tuning: TuneFigures = dataclasses.field(default_factory=TuneFigures)
