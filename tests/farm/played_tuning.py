"""Tunings on a clock that is played: a trial takes as long as the test says, however busy this machine is."""

import math
import time
from typing import Any

import pytest

from farm.config.execution import DEFAULT
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.tune import search
from farm.jobs.tune.trials import UnitTrials
from tuner.budget import Deadline
from tuner.trial import Trial


class PlayedTuning:
    """The clock of budgets: a trial of the choice takes `candidate_s`, one of the search `trial_s`, a plan `load_s`.

    What a budget in seconds leaves room for is thereby a number of trials and processes.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, trial_s: float = 1.0, candidate_s: float = 0.1, load_s: float = 0.0
    ) -> None:
        self.trial_s, self.candidate_s, self.load_s, self._now_s = trial_s, candidate_s, load_s, time.monotonic()
        self._attempt, self._trials_on, self._load = UnitTrials._attempt, search.trials_on, OpenUnit.loading
        self._of_search: list[UnitTrials] = []
        patch.setattr(UnitTrials.__init__, "__defaults__", (self, DEFAULT))
        patch.setattr(UnitTrials, "process_s", load_s)
        patch.setattr(UnitTrials, "_attempt", lambda *arguments: self._timed(*arguments))
        patch.setattr(OpenUnit, "loading", lambda *arguments, **more: self._loaded(*arguments, **more))
        patch.setattr(search, "trials_on", self._noted)
        patch.setattr(Deadline.__init__, "__defaults__", (math.inf, self))

    def __call__(self) -> float:
        return self._now_s

    def _loaded(self, *arguments: Any, **more: Any) -> Any:
        self._now_s += self.load_s
        return self._load(*arguments, **more)

    def _noted(self, *arguments: Any) -> UnitTrials:
        self._of_search.append(self._trials_on(*arguments))
        return self._of_search[-1]

    def _timed(self, unit_trials: UnitTrials, *arguments: Any) -> Trial:
        self._now_s += self.trial_s if unit_trials in self._of_search else self.candidate_s
        return self._attempt(unit_trials, *arguments)
