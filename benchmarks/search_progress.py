"""Replays `farm tune`'s quick search on a recorded exhaustive one: the best so far of the model against device time.

`benchmarks/record_search.py` records. The best so far is the model's time with the fastest candidate tried of each
launch, its default included, over its time with the fastest that was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.recording import Recording
from runtime.lowering.trials import TrialLaunch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks, PeakFigure
from tuner import space
from tuner.budget import Budget
from tuner.device_pool import pool_of_one
from tuner.journal import ForeignTrial, Journal
from tuner.relatives import relatives_of
from tuner.search import LEVELS, search
from tuner.trial import Candidate, Trial
from tuner.trial_runner import TrialRunner

FAMILIES = {"system": "pocl-3.1", "pypi": "pocl-3.0", "intel": "cpu"}
MISREAD = (2.0, 1.3, 1.1, 1.0, 0.98, 0.97, 0.9, 0.8, 0.7, 0.5)
NS_PER_MS = 1e6


class Replay:
    """A recording as `measure`, which keeps the best so far of the model after each trial."""

    def __init__(self, path: Path) -> None:
        self.recording = Recording(path)
        launches = self.recording.launches
        best = self.recording.best
        self._best_model_ns = self.recording.model_ns(best)
        self._ns = {each.key: self._median_ns(each, space.default_candidate(each)) for each in launches}
        self._uses = {each.key: len(each.uses) for each in launches}
        self._spent_s = 0.0
        self.programs = 0
        self.curve: list[tuple[float, float]] = [(0.0, self._behind())]

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        trial = self.recording(launch, candidate, reps)
        self._spent_s += trial.device_s
        self.programs += trial.build_s > 0
        ns = self._median_ns(launch, candidate)
        self._ns[launch.key] = min(self._ns[launch.key], ns)
        self.curve.append((self._spent_s, self._behind()))
        return trial

    def _median_ns(self, launch: TrialLaunch, candidate: Candidate) -> float:
        return self.recording.median_ns(launch, candidate)

    def _behind(self) -> float:
        """The model's time with the best so far, over that with the best there is."""
        return sum(ns * self._uses[key] for key, ns in self._ns.items()) / self._best_model_ns


def quick(path: Path, driver: str, journal: Sequence[ForeignTrial] = (), peaks: MeasuredPeaks = NOT_MEASURED) -> Replay:
    """The quick search with its own budget."""
    replay, level = Replay(path), LEVELS["quick"]
    runner = TrialRunner(pool_of_one(replay), Journal(None, driver), Budget(level.budget_s))
    relatives = relatives_of(FAMILIES.get(driver, driver), journal)
    search(replay.recording.launches, replay.recording.expand, runner, level, relatives=relatives, peaks=peaks)
    return replay


def top_peak(recording: Recording) -> MeasuredPeaks:
    """The most multiply-adds per ms that any recorded launch does: no peak of that device can be lower."""
    rates = (each.macs / recording.median_ns(each, recording.best[each.key]) for each in recording.launches)
    return MeasuredPeaks({PeakFigure.MACS: NS_PER_MS * max(rates)})


def times_peak(peaks: MeasuredPeaks, factor: float) -> MeasuredPeaks:
    """Peaks that were read as so many times what they are."""
    return MeasuredPeaks({figure: factor * value for figure, value in peaks.figures.items()})
