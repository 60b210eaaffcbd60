"""Times what may be chosen: the launches of candidates on a unit, each checked, and remembered in the SoC's journal."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from farm.config.execution import Execution
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.tune.schedule import MOST, Pace
from farm.jobs.tune.trials import MS_PER_S, UnitTrials
from farm.workspace import TUNING
from runtime.errors import DeadlineError, DeviceError, ProcessEndedError, UnsupportedError
from runtime.lowering.options import Options
from runtime.lowering.trials import TrialLaunch
from runtime.selection.trials import CandidateNode, CandidatePlan, UntunedStep, candidate_plan
from runtime.target import Target
from tuner.journal import Journal
from tuner.space import default_candidate
from tuner.trial import DRIVERS_CHOICE, Candidate, Trial, TrialStatus, validated

NS_PER_MS = 1e6
REPS, LATER_REPS = 3, 2  # of a launch among all others of its plan, and again after them: other work comes and goes
UNTUNED_REPS = 5
TRIAL_DEADLINE_S = 60.0
WATCHED = (DeviceError, DeadlineError, ProcessEndedError)  # what a candidate can do to farmrt


@dataclasses.dataclass
class CandidateTrials:
    """Times candidates on a unit as long as there is time: `left_s` says how many seconds, by the same `clock`.

    Attributes:
        ms: what is known: cost key -> ms, infinite where a launch fails or computes something wrong.
        trials, device_s: what was measured anew, and the device time that took, builds and restarts included.
    """

    opened: OpenUnit
    target: Target
    options: Options
    execution: Execution
    name: str
    journal: Journal
    left_s: Callable[[], float]
    ms: dict[str, float] = dataclasses.field(default_factory=dict)
    clock: Callable[[], float] = monotonic
    trials: int = 0
    device_s: float = 0.0
    pace: Pace = dataclasses.field(default_factory=Pace)

    def is_over(self) -> bool:
        """Whether no further candidate would be built and timed before the time is up."""
        return not self.pace.fitting(self.left_s())

    def time(self, nodes: Sequence[CandidateNode], most: int = MOST) -> None:
        """Times the launches of some nodes that are not known yet: the first ones, where not all fit into the time.

        At `most` so many of them are in one trial plan.
        """
        waiting = list(nodes)
        while waiting and (count := self.pace.fitting(self.left_s(), most)):
            self._time_together(waiting[:count])
            del waiting[:count]

    def _time_together(self, nodes: Sequence[CandidateNode]) -> None:
        """In one trial plan; the halves apart where they fail together."""
        try:
            plan = candidate_plan(nodes, self.target, self.options)
        except UnsupportedError:
            return self._halves(nodes)
        start_s = self.clock()
        try:
            self._time_plan(plan)
        except WATCHED as error:
            self.opened.session.respawn()
            self._spend(len(nodes), start_s)
            if len(nodes) > 1:
                return self._halves(nodes)
            self._condemn(plan, error)
        else:
            self._spend(len(nodes), start_s)

    def _spend(self, nodes: int, start_s: float) -> None:
        seconds = max(self.clock() - start_s, 0.0)
        self.device_s += seconds
        self.pace.note(nodes, seconds)

    def _halves(self, nodes: Sequence[CandidateNode]) -> None:
        if len(nodes) > 1:
            middle = len(nodes) // 2
            self.time(nodes[:middle])
            self.time(nodes[middle:])

    def _time_plan(self, plan: CandidatePlan) -> None:
        plan_file = TUNING.plan_file(f"{self.name}.candidates", self.opened.unit.abi, self.opened.unit.soc, "gpu")
        write_plan(plan.trials.plan, plan_file)
        unit_trials = UnitTrials(self.opened, plan.trials, plan_file, self.clock, self.execution)
        unknown = [launch for launch in unit_trials.launches if launch.key not in self.ms]
        known = {launch.key: self._journaled(launch) for launch in unknown}
        # Whatever the time, all of them, and twice: their programs are built, which is what takes long.
        first = {each.key: self._trial(unit_trials, each, REPS) for each in unknown if not known[each.key]}
        for launch in reversed(unknown):
            trial = known[launch.key] or first[launch.key]
            is_new = launch.key in first
            if is_new and trial.status == TrialStatus.OK:
                trial = trial.followed_by(self._trial(unit_trials, launch, LATER_REPS))
            self._note(launch.kernel.name, launch.key, default_candidate(launch), trial, is_new)
        self._time_untuned([step for step in plan.untuned if step.key not in self.ms])

    def _journaled(self, launch: TrialLaunch) -> Trial | None:
        return self.journal.find(launch.kernel.name, launch.key, default_candidate(launch))

    @staticmethod
    def _trial(unit_trials: UnitTrials, launch: TrialLaunch, reps: int) -> Trial:
        reps = 1 if unit_trials.is_long(launch) else reps
        return validated(unit_trials(launch, default_candidate(launch), reps), launch.tolerance)

    def _time_untuned(self, steps: Sequence[UntunedStep]) -> None:
        """Times launches that cannot be varied: one by one on the GPU, in rounds of the whole plan on the CPU."""
        on_cpu = self._profile() if any(step.on_cpu for step in steps) else {}
        for step in steps:
            ns = on_cpu[step.step] if step.on_cpu else self._repeat(step.step)
            trial = Trial(TrialStatus.OK, tuple(ns), device_s=sum(ns) / (NS_PER_MS * MS_PER_S))
            self._note(step.kernel.name, step.key, Candidate(step.variant, DRIVERS_CHOICE), trial, is_new=True)

    def _repeat(self, step: int) -> Sequence[float]:
        return self.opened.session.trial(TRIAL_DEADLINE_S, step=step, reps=UNTUNED_REPS, warmup=1).ns

    def _profile(self) -> Mapping[int, Sequence[float]]:
        deadline_s = self.opened.round_limit_s * UNTUNED_REPS
        steps = self.opened.session.run(UNTUNED_REPS, deadline_s, warmup=1, profile=True).steps
        return {index: step.ns for index, step in enumerate(steps)}

    def _condemn(self, plan: CandidatePlan, error: Exception) -> None:
        """Remembers that a node's launches cannot be used: the driver fails on one of them."""
        status = TrialStatus.FAILED if isinstance(error, DeviceError) else TrialStatus.CRASH
        for launch in plan.trials.launches:
            if launch.key not in self.ms:
                self._note(launch.kernel.name, launch.key, default_candidate(launch), Trial(status, reason=str(error)))

    def _note(self, kernel: str, key: str, candidate: Candidate, trial: Trial, is_new: bool = True) -> None:
        self.ms[key] = trial.typical_ns / NS_PER_MS
        if is_new:
            self.trials += 1
            self.journal.add(kernel, key, candidate, trial)
