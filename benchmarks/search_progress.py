"""How soon each way of searching finds what is fast, on recorded exhaustive searches: best so far against device time.

    python benchmarks/record_search.py --model squeezenet_v11 --opencl intel --largest 16 --passes 2 -o intel.json.gz
    python -m benchmarks.search_progress intel=intel.json.gz system=system.json.gz [-o docs/images/search-progress.svg]

One recording a driver. Each search is replayed on the recorded times, so that all see the same
device: `quick` as `farm tune` does, alone and beginning from what a quick search has left of the other drivers; in
random order (the median of five); and exhaustively, program by program. The best so far is the model's time with the
fastest candidate tried of each launch, its default included, over its time with the fastest that was recorded.
A second table tells where the quick search ends that knows the device's peak, truly or misread.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks.recording import Recording
from benchmarks.step_chart import Axes, Curve, Panel, svg
from farm import atomic_file
from runtime.lowering.trials import TrialLaunch
from runtime.peaks import NOT_MEASURED, MeasuredPeaks, PeakFigure
from tuner import space
from tuner.device_pool import pool_of_one
from tuner.journal import ForeignTrial, Journal
from tuner.relatives import relatives_of
from tuner.search import LEVELS, search
from tuner.trial import Candidate, Trial
from tuner.trial_runner import TrialRunner

QUICK, HELPED, RANDOM, EXHAUSTIVE = "quick", "quick, from the other drivers' journals", "random", "exhaustive"
SEEDS = 5
CLOSE = 1.05
FAMILIES = {"system": "pocl-3.1", "pypi": "pocl-3.0", "intel": "cpu"}
HIGHEST = 1.4
MISREAD = (2.0, 1.3, 1.1, 1.0, 0.98, 0.97, 0.9, 0.8, 0.7, 0.5)
NS_PER_MS = 1e6
Try = tuple[TrialLaunch, Candidate]


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
        self.tried: list[tuple[TrialLaunch, Candidate, float]] = []
        self.curve: list[tuple[float, float]] = [(0.0, self._behind())]

    def __call__(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        trial = self.recording(launch, candidate, reps)
        self._spent_s += trial.device_s
        self.programs += trial.build_s > 0
        ns = self._median_ns(launch, candidate)
        self.tried.append((launch, candidate, ns))
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
    runner = TrialRunner(pool_of_one(replay), Journal(None, driver), level.budget_s)
    relatives = relatives_of(FAMILIES.get(driver, driver), journal)
    search(replay.recording.launches, replay.recording.expand, runner, level, relatives=relatives, peaks=peaks)
    return replay


def journal_of(driver: str, replay: Replay) -> list[ForeignTrial]:
    """What a search leaves in the journal of its driver, for others."""
    family = FAMILIES.get(driver, driver)
    return [
        ForeignTrial(driver, family, launch.kernel.name, launch.key, candidate.variant.name, ns)
        for launch, candidate, ns in replay.tried
    ]


def in_order(path: Path, shuffle: random.Random | None) -> Replay:
    """Tries everything: program by program, or in random order."""
    replay = Replay(path)
    recording = replay.recording
    candidates = dict.fromkeys(each for of_launch in recording.samples.values() for each in of_launch)
    tries = [(launch, each) for each in candidates for launch in recording.launches if _has(recording, launch, each)]
    if shuffle:
        shuffle.shuffle(tries)
    for launch, candidate in tries:
        replay(launch, candidate, 3)
    return replay


def _has(recording: Recording, launch: TrialLaunch, candidate: Candidate) -> bool:
    return candidate in recording.samples[launch.key]


def median_curve(curves: Sequence[Curve], steps: int = 400) -> Curve:
    """The median of several curves at times that are spread evenly on a logarithmic axis."""
    last_s = max(curve[-1][0] for curve in curves)
    times = [last_s * 10 ** (4 * (step / steps - 1)) for step in range(steps + 1)]
    return [(at_s, statistics.median(value_at(curve, at_s) for curve in curves)) for at_s in times]


def value_at(curve: Curve, at_s: float) -> float:
    """The value of a step curve at a time."""
    return [value for seconds, value in curve if seconds <= at_s or seconds == curve[0][0]][-1]


def seconds_until(curve: Curve, value: float) -> float:
    """When a curve comes down to a value; infinite where it never does."""
    return next((seconds for seconds, each in curve if each <= value), math.inf)


def curves_of(driver: str, path: Path, journals: Mapping[str, Sequence[ForeignTrial]]) -> list[tuple[str, Curve]]:
    """All ways to search on one driver."""
    others = [trial for other, trials in journals.items() if other != driver for trial in trials]
    randoms = [in_order(path, random.Random(seed)).curve for seed in range(SEEDS)]
    return [
        (QUICK, quick(path, driver).curve),
        (HELPED, quick(path, driver, others).curve),
        (RANDOM, median_curve(randoms)),
        (EXHAUSTIVE, in_order(path, None).curve),
    ]


def table(panels: Iterable[Panel]) -> str:
    """When each search is within 5 % of the best, in Markdown."""
    names = [QUICK, HELPED, RANDOM, EXHAUSTIVE]
    lines = ["| driver | default | " + " | ".join(names) + " |", "| --- | ---: |" + " ---: |" * len(names)]
    for panel in panels:
        cells = [_words(curve) for _, curve in panel.curves]
        lines.append(f"| {panel.title} | {panel.curves[0][1][0][1]:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def top_peak(recording: Recording) -> MeasuredPeaks:
    """The most multiply-adds per ms that any recorded launch does: no peak of that device can be lower."""
    rates = (each.macs / recording.median_ns(each, recording.best[each.key]) for each in recording.launches)
    return MeasuredPeaks({PeakFigure.MACS: NS_PER_MS * max(rates)})


def times_peak(peaks: MeasuredPeaks, factor: float) -> MeasuredPeaks:
    """Peaks that were read as so many times what they are."""
    return MeasuredPeaks({figure: factor * value for figure, value in peaks.figures.items()})


def peaks_table(paths: Mapping[str, Path]) -> str:
    """Where the quick search ends if the device's peak was read as so many times the fastest launch's, in Markdown."""
    names = ["not measured", *map(str, MISREAD)]
    lines = ["| driver | " + " | ".join(names) + " |", "| --- |" + " ---: |" * len(names)]
    for driver, path in paths.items():
        top = top_peak(Recording(path))
        curves = [
            quick(path, driver, peaks=peaks).curve
            for peaks in (NOT_MEASURED, *(times_peak(top, each) for each in MISREAD))
        ]
        lines.append(f"| {driver} | " + " | ".join(f"{curve[-1][1]:.3f}" for curve in curves) + " |")
    return "\n".join(lines)


def _words(curve: Curve) -> str:
    until_s = seconds_until(curve, CLOSE)
    return f"{until_s:.1f} s" if math.isfinite(until_s) else f"never ({curve[-1][1]:.2f} at {curve[-1][0]:.0f} s)"


@click.command()
@click.argument("recordings", metavar="DRIVER=RECORDING ...", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Also draw the curves into this SVG file.")
def main(recordings: tuple[str, ...], output: Path | None) -> None:
    """Compares searches on recorded exhaustive ones."""
    paths = {name: Path(path) for name, _, path in (each.partition("=") for each in recordings)}
    journals = {driver: journal_of(driver, quick(path, driver)) for driver, path in paths.items()}
    panels = [Panel(driver, curves_of(driver, path, journals)) for driver, path in paths.items()]
    click.echo(table(panels))
    click.echo(peaks_table(paths))
    if output:
        last_s = max(curve[-1][0] for panel in panels for _, curve in panel.curves)
        drawing = svg(panels, Axes(0.1, last_s, HIGHEST), "device time in s; above: time over the best")
        atomic_file.write(output, drawing.encode())


if __name__ == "__main__":
    main()
