"""Whether tunings of a model from scratch agree: on the winners, and on the model's time with the table of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.jobs.compare.interleaved import TunedFiles, measure_in_turns
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData
from farm.jobs.tune.collect import draft
from farm.jobs.tune.search import Tuned
from farm.rows.tune import TuningAgreement


def agreements(opened: OpenUnit, tunings: Sequence[Tuned], data: TestData) -> tuple[TuningAgreement, ...]:
    """Each later tuning of a model compared with the first; those with another table run in turns with it."""
    first, *others = tunings
    different = [other for other in others if _same(first, other) < len(first.verdicts)]
    ratios = iter(_measured(opened, [first, *different], data) if different else [])
    return tuple(next(ratios) if other in different else _agreement(first, other) for other in others)


def _measured(opened: OpenUnit, tunings: Sequence[Tuned], data: TestData) -> list[TuningAgreement]:
    first, *others = tunings
    opened.progress.stage(f"{first.prepared.name}: the tables of {len(tunings)} tunings in turns")
    with TemporaryDirectory() as folder:
        files = [_files(opened, tuned, Path(folder, str(number))) for number, tuned in enumerate(tunings)]
        (of_first, *of_others), throttling = measure_in_turns(opened, first.version.file(first.prepared), files, data)
    ratios = [measured.over(of_first) for measured in of_others]
    return [
        _agreement(first, other).model_copy(
            update={
                "time_ratio": ratio.value if ratio else None,
                "time_ratio_ci": (ratio.low, ratio.high) if ratio else None,
                "throttled": throttling.throttled,
            }
        )
        for other, ratio in zip(others, ratios, strict=True)
    ]


def _files(opened: OpenUnit, tuned: Tuned, folder: Path) -> TunedFiles:
    folder.mkdir()
    files = draft(opened, tuned.prepared.deployment.library_name, [tuned]).write(folder)
    return TunedFiles(*files, plan=tuned.version.file(tuned.prepared))


def _agreement(first: Tuned, other: Tuned) -> TuningAgreement:
    """What the verdicts tell; tables that are the same take the same time."""
    same, launches = _same(first, other), len(first.verdicts)
    return TuningAgreement(launches=launches, same_winners=same, time_ratio=1.0 if same == launches else None)


def _same(first: Tuned, other: Tuned) -> int:
    """Launches for which both chose the same candidate."""
    chosen = {verdict.launch.key: verdict.chosen for verdict in other.verdicts}
    return sum(chosen.get(verdict.launch.key) == verdict.chosen for verdict in first.verdicts)
