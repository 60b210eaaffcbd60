"""Whether tunings of a model from scratch agree: on the winners, and on the model's time with the table of each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.jobs.compare.interleaved import Effort, Pairs, TunedFiles, measure_in_turns, ratio_of
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData
from farm.jobs.tune.collect import draft
from farm.jobs.tune.search import ModelTuning
from farm.rows.tune import TuningAgreement, tunings_agree
from tuner.verdict import LaunchVerdict


def _tells(ways: Sequence[Pairs]) -> bool:
    """Whether pairs tell of each tuning whether it agrees with the first."""
    ratios = [ratio_of(pairs) for pairs in ways]
    return all(ratio and tunings_agree(ratio.low, ratio.high) is not None for ratio in ratios)


# More than for a proof: that two tables are the same takes a narrow interval, and beside other work so many more pairs.
PROCESSES = Effort(processes=96, least=24, turns=16, is_settled=_tells)


def agreements(opened: OpenUnit, tunings: Sequence[ModelTuning], data: TestData) -> tuple[TuningAgreement, ...]:
    """Each later tuning of a model compared with the first; those with another table run in turns with it."""
    first, *others = tunings
    different = [other for other in others if _same(first, other) < len(first.verdicts)]
    ratios = iter(_measured(opened, [first, *different], data) if different else [])
    return tuple(next(ratios) if other in different else agreed(first, other) for other in others)


def _measured(opened: OpenUnit, tunings: Sequence[ModelTuning], data: TestData) -> list[TuningAgreement]:
    first, *others = tunings
    opened.progress.stage(f"{first.prepared.name}: the tables of {len(tunings)} tunings in turns")
    with TemporaryDirectory() as folder:
        files = [_files(opened, tuned, Path(folder, str(number))) for number, tuned in enumerate(tunings)]
        ways = [*files[1:], files[0]]  # whether pairs tell enough is asked of the last one's
        plan_file = files[0].plan or first.version.file(first.prepared)
        (*of_others, of_first), throttling = measure_in_turns(opened, plan_file, ways, data, PROCESSES)
    ratios = [measured.over(of_first) for measured in of_others]
    return [
        agreed(first, other).model_copy(
            update={
                "time_ratio": ratio.value if ratio else None,
                "time_ratio_ci": (ratio.low, ratio.high) if ratio else None,
                "throttled": throttling.throttled,
            }
        )
        for other, ratio in zip(others, ratios, strict=True)
    ]


def _files(opened: OpenUnit, tuned: ModelTuning, folder: Path) -> TunedFiles:
    """Its table and its plan, in files of their own: a later tuning that chose another plan wrote over the model's."""
    folder.mkdir()
    files = draft(opened, tuned.prepared.deployment.library_name, [tuned]).files(opened, folder)
    plan_file = folder / tuned.plan_file.name
    write_plan(tuned.plan, plan_file)
    return dataclasses.replace(files, plan=dataclasses.replace(tuned.version.file(tuned.prepared), path=plan_file))


def agreed(first: ModelTuning, other: ModelTuning) -> TuningAgreement:
    """What the verdicts tell; tables that are the same take the same time."""
    same, launches = _same(first, other), len(first.verdicts)
    tied = sum(_is_tie(*pair) for pair in _pairs(first, other) if pair[0].chosen != pair[1].chosen)
    ratio = 1.0 if same == launches else None
    return TuningAgreement(launches=launches, same_winners=same, tied_winners=tied, time_ratio=ratio)


def _same(first: ModelTuning, other: ModelTuning) -> int:
    """Launches for which both chose the same candidate."""
    return sum(one.chosen == two.chosen for one, two in _pairs(first, other))


def _pairs(first: ModelTuning, other: ModelTuning) -> list[tuple[LaunchVerdict, LaunchVerdict]]:
    """The verdicts of both on each launch that both have."""
    others = {verdict.launch.key: verdict for verdict in other.verdicts}
    return [(one, others[one.launch.key]) for one in first.verdicts if one.launch.key in others]


def _is_tie(one: LaunchVerdict, two: LaunchVerdict) -> bool:
    """Whether two winners are as fast as each other within the noise, by the time of each over the default's."""
    (low, high), (other_low, other_high) = _over_default(one), _over_default(two)
    return max(low, other_low) <= min(high, other_high)


def _over_default(verdict: LaunchVerdict) -> tuple[float, float]:
    """The interval of a winner's time over the default's; nothing is known of one whose default gives no result."""
    if not verdict.won:
        return 1.0, 1.0
    return (verdict.ratio.low, verdict.ratio.high) if verdict.ratio else (math.inf, -math.inf)
