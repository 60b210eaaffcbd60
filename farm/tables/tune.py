"""The rows of `farm tune` as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farm.rows.forecast import MIXED
from farm.rows.row import played_note
from farm.rows.tune import (
    AGREE_PERCENT,
    ChoiceFigures,
    ChoiceOutcome,
    TuneOutcome,
    TuneRow,
    TuningAgreement,
    tunings_agree,
)
from farm.tables.forecast import data_types_text
from farm.tables.table import Table, milliseconds

TUNE_COLUMNS = (
    *("Model", "Unit", "SoC", "Runtime", "Status", "Default(ms)", "Tuned(ms)", "Gain(%)", "95 % interval"),
    *("Outcome", "Tuned launches", "Trials", "Device(s)", "Init(ms)"),
)
TUNE_LEFT = frozenset({"Model", "Unit", "SoC", "Runtime", "Status", "Outcome"})


def tune_table(rows: Sequence[TuneRow]) -> Table:
    """One line a row."""
    return Table("", TUNE_COLUMNS, [_tune_cells(row) for row in rows], TUNE_LEFT)


def _tune_cells(row: TuneRow) -> list[str]:
    inits = f"{milliseconds(row.default_init_ms)} -> {milliseconds(row.init_ms)}"
    return [
        *(row.model, f"{row.unit}{' (played)' * bool(_played(row))}", row.soc, row.runtime, row.status.value),
        milliseconds(row.default_ms),
        milliseconds(row.tuned_ms),
        *_gain_cells(row),
        row.outcome or "-",
        f"{row.launches_tuned} of {row.launches}",
        str(row.trials),
        f"{row.device_s:.1f}",
        inits if row.init_ms is not None else "-",
    ]


def _gain_cells(row: TuneRow) -> tuple[str, str]:
    """The gain and its interval; where every launch kept its default, there is none."""
    if row.gain_percent is None:
        return "-", "-"
    return f"{row.gain_percent:.1f}", f"{row.gain_ci[0]:.1f} to {row.gain_ci[1]:.1f}" if row.gain_ci else "-"


def played_lines(rows: Sequence[TuneRow]) -> list[str]:
    """Which times are of a GPU that is played."""
    return [f"{row.model} on {row.unit} ({row.runtime}): {note}" for row in rows if (note := _played(row))]


def _played(row: TuneRow) -> str:
    return played_note(row.fingerprint, row.runtime)


def outcome_lines(rows: Sequence[TuneRow]) -> list[str]:
    """What each tuning tried, what it gained, and what is in force now, in words; a failure says that itself."""
    told = [row for row in rows if row.outcome]
    lines = [f"{row.model} on {row.unit} ({row.runtime}): {_outcome_text(row)}" for row in told]
    return lines + list(dict.fromkeys(f"{row.model}: {row.eight_bits}" for row in told if row.eight_bits))


def is_untuned(row: TuneRow) -> bool:
    """Whether nothing was tried, so that what was asked for was not done."""
    return row.outcome == TuneOutcome.NOT_TUNED


def _outcome_text(row: TuneRow) -> str:
    if is_untuned(row):
        return f"not tuned: {row.outcome_reason}; nothing was published, what was in force stays{_remedy(row)}"
    tried = f"{row.tried} candidates were tried on {row.launches} launches"
    if row.runtime == "cpu":
        tried = f"{row.trials} ways to run it were tried"
    return f"{tried}; {_found_text(row)}{_remedy(row)}"


def _found_text(row: TuneRow) -> str:
    if row.outcome == TuneOutcome.NEW:
        better = f"{row.launches_tuned} have a faster one" if row.launches_tuned else "the defaults stay"
        better = _cpu_text(row) if row.runtime == "cpu" else better
        plan = "another plan is chosen, " if row.choice and row.choice.outcome == ChoiceOutcome.CHOSEN else ""
        return f"{plan}{better}: {_gain_text(row)}; the new parameters are in force"
    if row.outcome == TuneOutcome.NO_CHANGE:
        return "none was faster beyond the noise: every launch keeps its default"
    return f"what was in force is kept: {row.outcome_reason}"


def _cpu_text(row: TuneRow) -> str:
    """How a model is run on a CPU from now on."""
    threads = f"threads: {row.cpu.threads}, " if row.cpu else ""
    layers = f"convolutions by Winograd's algorithm: {row.settings['winograd_layers']}"
    return f"{threads}blocks of {row.settings['block']} channels, {layers}"


def _gain_text(row: TuneRow) -> str:
    if row.gain_percent is None:
        return "the gain is not known"
    low, high = row.gain_ci or (row.gain_percent, row.gain_percent)
    times = f"{milliseconds(row.default_ms)} -> {milliseconds(row.tuned_ms)} ms"
    return f"{row.gain_percent:.1f} % of the time saved ({low:.1f} to {high:.1f}), {times}"


def _remedy(row: TuneRow) -> str:
    """The budget that would do, where the one that was given is too small."""
    if row.budget_needed_s is None:
        return ""
    what = "to tune it" if is_untuned(row) else "for ten trials of each launch of weight"
    return f"; {what}: --budget {row.budget_needed_s:g}"


def choice_lines(rows: Sequence[TuneRow]) -> list[str]:
    """What came of each row's choice over the whole graph, and what was spent on it."""
    return [f"{row.model} on {row.unit}: {_choice_text(row.choice)}" for row in rows if row.choice]


def _choice_text(choice: ChoiceFigures) -> str:
    before, chosen = milliseconds(choice.predicted_before_ms), milliseconds(choice.predicted_ms)
    spent = f"{choice.trials} trials, {choice.device_s:.1f} s"
    budget = "" if choice.budget_s is None else f" of {choice.budget_s:.1f}"
    data_type = f"{_data_type_text(choice)}; " if choice.data_type else ""
    outcome = f"plan {_OUTCOMES[choice.outcome]}"
    places = ", ".join(f"{count} {place}" for place, count in sorted(choice.places.items(), key=lambda each: -each[1]))
    predicted = (
        f"predicted {before} -> {chosen} ms" if choice.outcome != ChoiceOutcome.SAME else f"predicted {chosen} ms"
    )
    measured = ""
    if choice.time_ratio is not None:
        interval = " ({:.3f} to {:.3f})".format(*choice.time_ratio_ci) if choice.time_ratio_ci else ""
        measured = f", measured {choice.time_ratio:.3f}{interval} of the time"
    casts = f", {choice.casts} conversions between float and half" if MIXED in choice.data_type else ""
    return f"{outcome}: {data_type}{places}{casts}; {predicted}{measured}; {spent}{budget}{_because(choice)}"


def _data_type_text(choice: ChoiceFigures) -> str:
    """The data type of the plan, what the others were predicted to take, and which were not accurate."""
    dropped = (f"{data_type} is not accurate enough: {reason}" for data_type, reason in choice.dropped.items())
    return "; ".join([data_types_text(choice.data_type, choice.by_data_type), *dropped, *_inaccurate_text(choice)])


def _inaccurate_text(choice: ChoiceFigures) -> Iterator[str]:
    """How many mixed plans were not accurate enough, and why the last was not."""
    if choice.inaccurate:
        plans = "plan that costs less is" if len(choice.inaccurate) == 1 else "plans that cost less are"
        yield f"{len(choice.inaccurate)} mixed {plans} not accurate enough: {choice.inaccurate[-1]}"


_OUTCOMES = {
    ChoiceOutcome.CHOSEN: "chosen",
    ChoiceOutcome.SAME: "in force stays, none is cheaper",
    ChoiceOutcome.REFUSED: "in force stays, the chosen one is refused",
    ChoiceOutcome.UNDECIDED: "in force stays, undecided",
}


def _because(choice: ChoiceFigures) -> str:
    return f" ({choice.reason})" if choice.reason else ""


_AGREE_TEXTS = {
    True: f"within {AGREE_PERCENT:g} %",
    False: f"NOT within {AGREE_PERCENT:g} %",
    None: f"too noisy to tell whether within {AGREE_PERCENT:g} %",
}


def agreement_lines(rows: Sequence[TuneRow]) -> list[str]:
    """How far further tunings from scratch agree with the first, a line each."""
    return [
        f"{row.model} on {row.unit}: tuning {number} {_agreement_text(agreement)}"
        for row in rows
        for number, agreement in enumerate(row.agreements, 2)
    ]


def _agreement_text(agreement: TuningAgreement) -> str:
    winners = f"chose the same for {agreement.same_winners} of {agreement.launches} launches"
    if agreement.tied_winners:
        winners += f", for {agreement.tied_winners} others one as fast within the noise"
    if agreement.time_ratio is None:
        return f"{winners}; the times could not be compared"
    bounds = agreement.time_ratio_ci or (agreement.time_ratio,) * 2
    low, high = (100.0 * (bound - 1.0) for bound in bounds)
    interval = f" ({low:+.1f} to {high:+.1f})" if agreement.time_ratio_ci else ""
    percent = 100.0 * (agreement.time_ratio - 1.0)
    heat = f"; heat spoiled the comparison: {agreement.throttled}" if agreement.throttled else ""
    agree = _AGREE_TEXTS[tunings_agree(*bounds)]
    return f"{winners}; its table takes {percent:+.1f} %{interval} of the time more: {agree}{heat}"
