"""Whether new tuned parameters are better than the default and than those in force: asked before they are published."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from farm.artifacts import ModelRecord
from farm.config.execution import Execution
from farm.jobs.compare.interleaved import (
    DEFAULTS,
    LEAST_LOOK,
    Effort,
    Pairs,
    PlanMeasurement,
    Rehearsed,
    TunedFiles,
    ratio_of,
    rehearsed,
)
from farm.jobs.fleet.execution import execution_figures
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData
from farm.jobs.tune.built_programs import BUILT_PROGRAMS
from farm.jobs.tune.schedule import needed_budget_s
from farm.jobs.tune.search import ModelTuning, default_plan
from farm.jobs.validate import Validation, compare_outputs
from farm.rows.row import Ending, Throttling
from farm.rows.status import Status
from farm.rows.tune import TuneOutcome
from runtime.statistics.ratios import Ratio, chance_of_gain, chance_of_pairs
from tuner.budget import Deadline

ONE_EACH = Effort(processes=1, turns=4)  # where there is no gain to make sure of
NOTHING_TO_PROVE_S = 5.0  # after which a model whose rounds take seconds is not run again for it
LEAST_GAIN = 0.01  # of the time of what it replaces
FUTILE = 0.2  # a proof ends whose pairs leave less than this chance that all of them will show a gain
PLAIN_CHANCE = 0.0005  # below it a gain needs no second proof: chance makes a tuning look so good once in 2000
TOO_LITTLE = "the launches that win save {:.1%} of the time, of which no proof would make sure"
UNCONFIRMED = "a second proof did not confirm the gain"
THE_SAME = "the search found what is in force"
ALL_DEFAULT = "every launch keeps its default"
TOO_FEW = "the budget was spent before enough processes had run to prove a gain"


@dataclasses.dataclass(frozen=True)
class Proof:
    """A model by default, with the parameters in force (None without any) and with the new ones, run in turns.

    `ending` is how the row ends: well, unless the new parameters give a wrong result or were not used.
    """

    outcome: TuneOutcome
    reason: str
    ending: Ending
    validation: Validation
    default: PlanMeasurement
    incumbent: PlanMeasurement | None
    new: PlanMeasurement
    throttling: Throttling

    @property
    def gain(self) -> Ratio | None:
        """New over default; None where they are the same."""
        return None if self.outcome == TuneOutcome.NO_CHANGE else self.new.over(self.default)

    @property
    def gain_on_incumbent(self) -> Ratio | None:
        """New over what was in force."""
        return self.new.over(self.incumbent) if self.incumbent else None

    @property
    def is_plain(self) -> bool:
        """Whether its pairs leave next to no doubt that the new way gains LEAST_GAIN and more over each other."""
        others = [self.default, *([self.incumbent] if self.incumbent else [])]
        return all(is_plain_gain(self.new.pairs_over(other)) for other in others)

    def evidence(self, tuned: ModelTuning) -> ModelRecord:
        """For the manifest."""
        gain = self.gain
        return ModelRecord(
            model=tuned.prepared.name,
            default_ms=self.default.latency_ms,
            tuned_ms=self.new.latency_ms,
            gain_percent=gain.gain_percent if gain else 0.0,
            gain_ci=gain.gain_interval if gain else None,
            trials=tuned.trials,
            device_s=tuned.device_s,
        )


def prove(
    opened: OpenUnit,
    tuned: ModelTuning,
    new: TunedFiles,
    in_force: TunedFiles | None,
    data: TestData,
    deadline: Deadline,
    *,
    is_default: bool = False,
    changes: bool = False,
    spent_s: float = 0.0,
) -> Proof:
    """Measures a model in all three ways and decides; `in_force` is None where that is the default, or the new one.

    Each way has its own plan. Too few processes until the deadline prove nothing. Where it `changes` what is in force,
    a gain is proved again. With `is_default` the new way is the default's, which runs once, as does one that hardly
    promises a gain. `spent_s` was spent before.
    """
    opened.progress.stage(f"{tuned.prepared.name}: default against {'in force and ' if in_force else ''}tuned")
    other = default_plan(opened, tuned.prepared).file(tuned.prepared) if tuned.version.choice else None
    default_way = dataclasses.replace(DEFAULTS, plan=other, built=BUILT_PROGRAMS.of(opened).file)
    if in_force and tuned.is_new_plan:
        in_force = dataclasses.replace(in_force, plan=tuned.in_force.file(tuned.prepared))
    ways = [new] if is_default or tuned.gains_little else [default_way, *([in_force] if in_force else []), new]
    plan_file, most_ratio = tuned.version.file(tuned.prepared), tuned.chosen.most_ratio if tuned.chosen else 1.0

    def measured(each: Rehearsed, until: Deadline, again: bool = False) -> Proof:
        begin_s = deadline.clock()
        of_ways, throttling = each.measure(_effort(tuned, until, most_ratio, again))
        judged = _judged(tuned, of_ways, throttling, data, most_ratio)
        reason = with_remedy(judged.reason, deadline.clock() - begin_s, judged.new, spent_s)
        return dataclasses.replace(judged, reason=reason)

    with rehearsed(opened, plan_file, ways, data) as each:
        first = measured(each, deadline.share(0.5) if changes else deadline)
        return proved_again(first, lambda: measured(each, deadline, again=True)) if changes else first


def _judged(
    tuned: ModelTuning, of_ways: Sequence[PlanMeasurement], throttling: Throttling, data: TestData, most_ratio: float
) -> Proof:
    """What measurements of the default, of what is in force if it is another, and of the new say."""
    default, *between, new = of_ways if len(of_ways) > 1 else (*of_ways, *of_ways)
    default = dataclasses.replace(default, load=tuned.first_load or default.load)
    incumbent = between[0] if between else None
    validation = compare_outputs(tuned.prepared, tuned.target, data.expected, new.outputs)
    ending = _ending(validation, new)
    outcome, reason = tuning_outcome(tuned.has_news, ending, throttling, gains(default, incumbent, new), most_ratio)
    if tuned.gains_little:
        outcome, reason = TuneOutcome.KEPT, ending.reason or TOO_LITTLE.format(tuned.promised_gain)
    return Proof(outcome, reason, ending, validation, default, incumbent, new, throttling)


def _effort(tuned: ModelTuning, deadline: Deadline, most_ratio: float, again: bool) -> Effort:
    if tuned.has_news and not tuned.gains_little:
        return Effort(deadline=deadline, is_settled=lambda ways: is_settled(ways, most_ratio, again))
    return dataclasses.replace(ONE_EACH, deadline=deadline.within(NOTHING_TO_PROVE_S))


def is_settled(ways: Sequence[Pairs], most_ratio: float = 1.0, again: bool = False) -> bool:
    """Whether further processes would hardly change what pairs say of the new way, over each of the others.

    Where a gain is proved `again`, it is enough that it is seen again: chance alone showed it before one time in fifty.
    """
    ratios = [ratio for pairs in ways if (ratio := ratio_of(pairs))]
    is_seen = again and not any(shortfall(ratio, "", most_ratio) for ratio in ratios)
    return is_seen or is_decided(ratios, most_ratio) or any(is_futile(pairs, most_ratio) for pairs in ways)


def is_decided(ratios: Sequence[Ratio], most_ratio: float = 1.0) -> bool:
    """Whether so many processes leave no doubt: gains that count over all of the others, or hopeless over one."""
    return all(ratio.high <= most_ratio - LEAST_GAIN for ratio in ratios) or is_hopeless(ratios, most_ratio)


def is_futile(pairs: Pairs, most_ratio: float = 1.0, processes: int = Effort.processes) -> bool:
    """Whether all pairs of so many processes will hardly show a gain, if those that follow are like these.

    Source: conditional power, K. Lan, R. Simon and M. Halperin, "Stochastically curtailed tests", 1982.
    """
    least = LEAST_GAIN if most_ratio <= 1.0 else 0.0
    return chance_of_gain(pairs, processes - len(pairs), most_ratio - least, most_ratio) < FUTILE


def is_hopeless(ratios: Sequence[Ratio], most_ratio: float = 1.0) -> bool:
    """Whether so many processes have gained next to nothing over one of the others that further ones prove no gain."""
    return any(ratio.value > most_ratio - LEAST_GAIN / 2 for ratio in ratios)


def is_plain_gain(pairs: Pairs) -> bool:
    """Whether chance hardly ever shows such pairs where no more than LEAST_GAIN is gained."""
    return len(pairs) >= LEAST_LOOK and chance_of_pairs(pairs, [1.0 - LEAST_GAIN] * len(pairs)) <= PLAIN_CHANCE


def gains(default: PlanMeasurement, incumbent: PlanMeasurement | None, new: PlanMeasurement) -> dict[str, Ratio | None]:
    """New over each that was measured, by its name in reasons; None where too few processes ran to tell."""
    others = {"the default": default} | ({"what is in force": incumbent} if incumbent else {})
    return {name: new.over(other) for name, other in others.items()}


def gain_figures(proof: Proof) -> dict[str, Any]:
    """What a proof says, as members of TuneFigures."""
    found = {"gain": proof.gain, "gain_on_incumbent": proof.gain_on_incumbent}
    return {
        "outcome": proof.outcome,
        "outcome_reason": proof.reason,
        "default_ms": proof.default.latency_ms.median,
        "tuned_ms": proof.new.latency_ms.median,
        "incumbent_ms": proof.incumbent.latency_ms.median if proof.incumbent else None,
        **{f"{name}_percent": gain.gain_percent if gain else None for name, gain in found.items()},
        **{f"{name}_ci": gain.gain_interval if gain else None for name, gain in found.items()},
        "default_latency_ms": proof.default.latency_ms,
        "default_init_ms": proof.default.load.init_ms,
    }


def run_figures(measured: PlanMeasurement, execution: Execution) -> dict[str, Any]:
    """How a tuned model ran, as members of RunFigures."""
    load = measured.load
    times = {"latency_ms": measured.latency_ms, "init_ms": load.init_ms, "first_ms": measured.first_ms}
    return {**times, "memory_bytes": load.memory, **dict(execution_figures(load, execution))}


def tuning_outcome(
    won: bool, ending: Ending, throttling: Throttling, ratios: Mapping[str, Ratio | None], most_ratio: float = 1.0
) -> tuple[TuneOutcome, str]:
    """What to do with the new parameters. They must win beyond the noise, against all, or lose no more than allowed.

    Args:
        won: whether any launch has a winner beside its default, or the plan is another one.
        ratios: new over each that they must beat, by its name; None: measured, but not often enough.
        most_ratio: how many times the others' time they may take, more than 1 where the plan saves memory for it.
    """
    if not won:
        return TuneOutcome.NO_CHANGE, ALL_DEFAULT
    if ending.status != Status.OK:
        return TuneOutcome.KEPT, ending.reason
    if throttling.throttled:
        return TuneOutcome.KEPT, f"heat spoiled the comparison: {throttling.throttled}"
    if not all(ratios.values()):
        return TuneOutcome.KEPT, TOO_FEW
    reasons = (shortfall(ratio, name, most_ratio) for name, ratio in ratios.items() if ratio)
    reason = next(filter(None, reasons), "")
    return (TuneOutcome.KEPT, reason) if reason else (TuneOutcome.NEW, "")


def with_remedy(reason: str, took_s: float, measured: PlanMeasurement, spent_s: float = 0.0) -> str:
    """The reason, with the budget that would do where it is TOO_FEW processes.

    They took `took_s` together; `spent_s`: what was spent before them, and would be again.
    """
    if reason != TOO_FEW:
        return reason
    turn_s = took_s / (1 + len(measured.processes_ms))
    return (
        f"{reason}; --budget {needed_budget_s(spent_s, 0.0, selects=not spent_s, turn_s=turn_s):g} leaves time for them"
    )


def shortfall(ratio: Ratio, name: str, most_ratio: float = 1.0) -> str:
    """Why a ratio to what is called so is no reason to publish; empty where it is one.

    Where no more time than the other's is allowed, the gain must be LEAST_GAIN: so little may be a layout of memory.
    """
    low, high = ratio.gain_interval
    words = f": gain {ratio.gain_percent:.1f} % ({low:.1f} to {high:.1f})"
    if ratio.high >= most_ratio:
        return f"not faster than {name} beyond the noise{words}"
    if most_ratio <= 1.0 and ratio.value > 1.0 - LEAST_GAIN:
        return f"faster than {name} by less than the {100 * LEAST_GAIN:g} % that count{words}"
    return ""


def proved_again(first: Proof, prove_again: Callable[[], Proof]) -> Proof:
    """A proof that found a gain, made once more unless that is plain: of many tunings chance makes one in fifty better.

    The second has its own processes, so that its figures owe nothing to having been chosen.
    """
    if first.outcome != TuneOutcome.NEW or first.is_plain:
        return first
    second = prove_again()
    if second.outcome == TuneOutcome.NEW:
        return second
    return dataclasses.replace(second, reason=f"{UNCONFIRMED}: {second.reason}")


def _ending(validation: Validation, measured: PlanMeasurement) -> Ending:
    """How a tuning ends: the tuned model must be right, and must have used its tuned parameters."""
    used = measured.load.tuned
    if validation.is_ok and (used is None or used.match != "exact"):
        reason = used.reason if used else "farmrt does not tell of them"
        return Ending(status=Status.FAILED, reason=f"the tuned parameters were not used: {reason}")
    return validation.ending
