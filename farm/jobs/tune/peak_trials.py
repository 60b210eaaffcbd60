"""Measures a unit's peaks, which the model of what nobody has timed is made with; remembered in the SoC's journal.

Each probe is timed like a candidate: checked, after a ramp until its times agree, REPS repetitions of which the fastest
counts. What a driver fails on is remembered too, and its figure stays the typical one of the GPU family.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from time import monotonic

from farm.config.execution import Execution
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.tune.candidate_trials import NS_PER_MS, WATCHED
from farm.jobs.tune.trials import UnitTrials
from farm.workspace import TUNING
from runtime.lowering.trials import TrialLaunch
from runtime.peaks import MeasuredPeaks
from runtime.selection.peak_probes import PeakProbe, peaks_from, probe_plan, probes, wanted
from runtime.target import Target
from tuner.journal import Journal
from tuner.space import default_candidate, fitting_variants, three_dimensional
from tuner.trial import DRIVERS_CHOICE, FATAL_STATUSES, Candidate, Trial, TrialStatus, validated

TimePlan = Callable[[UnitTrials, float], None]

REPS, LONG_REPS = 7, 2
MOST_S = 0.5  # device time in which further probes are begun


@dataclasses.dataclass
class PeakTrials:
    """Times the probes that nobody has timed on the device, as long as there is time.

    `left_s` says how long that is, after so many device seconds.

    Attributes:
        best_ms: what is known: key -> fastest repetition in ms, infinite where a probe fails or computes nonsense.
        device_s: device time that it took, builds and restarts included.
    """

    opened: OpenUnit
    target: Target
    execution: Execution
    journal: Journal
    left_s: Callable[[float], float]
    best_ms: dict[str, float] = dataclasses.field(default_factory=dict)
    clock: Callable[[], float] = monotonic
    device_s: float = 0.0

    def measured(self) -> MeasuredPeaks:
        """The peaks, after what was missing has been measured."""
        known = probes(self.target)
        missing = [probe for probe in known if probe.key not in self.best_ms]
        for _, group in itertools.groupby(missing, key=lambda probe: probe.together):
            self._time([probe for probe in group if wanted(probe, known, self.best_ms)], self._defaults)
        multiplying = [probe for probe in missing if probe.launch.macs and probe.key in self.best_ms]
        for probe in multiplying:
            if probe.is_large or not wanted(dataclasses.replace(probe, is_large=True), known, self.best_ms):
                self._time([probe], self._other_variants)
        self._tell_failed(missing)
        return peaks_from(known, self.best_ms)

    def _tell_failed(self, missing: Sequence[PeakProbe]) -> None:
        figures = {probe.figure: None for probe in missing if math.isinf(self.best_ms.get(probe.key, 0.0))}
        if figures:
            names = ", ".join(figures)
            self.opened.progress.stage(f"the driver fails on what shows its peaks ({names}): typical ones count there")

    def _has_time(self, spent_s: float = 0.0) -> bool:
        return self.device_s + spent_s < MOST_S and self.left_s(self.device_s + spent_s) > 0.0

    def _time(self, waiting: Sequence[PeakProbe], time_plan: TimePlan) -> None:
        """In one plan; each alone where they fail together."""
        if not waiting or not self._has_time():
            return
        start_s = self.clock()
        try:
            time_plan(self._trials(waiting), start_s)
        except WATCHED as error:
            self.opened.session.respawn()
            self._spend(start_s)
            if len(waiting) == 1:
                self._condemn(waiting[0], error)
            else:
                for probe in waiting:
                    self._time([probe], time_plan)
        else:
            self._spend(start_s)

    def _spend(self, start_s: float) -> None:
        self.device_s += max(self.clock() - start_s, 0.0)

    def _trials(self, waiting: Sequence[PeakProbe]) -> UnitTrials:
        plan = probe_plan(self.target, waiting)
        plan_file = TUNING.plan_file("peaks", self.opened.unit.abi, self.opened.unit.soc, "gpu")
        write_plan(plan.plan, plan_file)
        return UnitTrials(self.opened, plan, plan_file, self.clock, self.execution)

    def _defaults(self, trials: UnitTrials, start_s: float) -> None:
        for launch in trials.launches:
            self._note(launch, default_candidate(launch), trials)

    def _other_variants(self, trials: UnitTrials, start_s: float) -> None:
        """The fastest variant shows the peak; each takes a build."""
        (launch,) = trials.launches
        for variant in fitting_variants(launch, self.target)[1:]:
            if not self._has_time(self.clock() - start_s):
                return
            size = launch.kernel.local_size(launch.dims, variant, self.target) if launch.kernel.local_size else (0,)
            self._note(launch, Candidate(variant, three_dimensional(size)), trials)

    def _note(self, launch: TrialLaunch, candidate: Candidate, unit_trials: UnitTrials) -> None:
        reps = LONG_REPS if unit_trials.is_long(launch) else REPS
        trial = validated(unit_trials(launch, candidate, reps), launch.tolerance)
        self._remember(launch.kernel.name, launch.key, candidate, trial)

    def _remember(self, kernel: str, key: str, candidate: Candidate, trial: Trial) -> None:
        """Keeps the trial as failed where it took the runtime down, which bans no candidate of the models' kernels."""
        if trial.status in FATAL_STATUSES:
            trial = dataclasses.replace(trial, status=TrialStatus.FAILED)
        self.best_ms[key] = min(trial.fastest_ns / NS_PER_MS, self.best_ms.get(key, math.inf))
        self.journal.add(kernel, key, candidate, trial)

    def _condemn(self, probe: PeakProbe, error: Exception) -> None:
        failed = Trial(TrialStatus.FAILED, reason=str(error))
        self._remember(probe.launch.kernel.name, probe.key, Candidate(probe.launch.variant, DRIVERS_CHOICE), failed)
