"""Other engines in a unit's night: each is brought to the unit once, and gives blocks as farmrt does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from farm.condition.device_state import read_state
from farm.engines.base import EngineRun, EngineTask
from farm.jobs.engines.ready import EngineModels, ReadyEngine, engine_unit, ready_of, started
from farm.jobs.engines.result import engine_figures, engine_provenance, engine_validation
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly.case import Examination, Subject
from farm.jobs.validate import Validation
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.nightly import Block
from farm.rows.series import Case


class NightEngines:
    """The engines of one unit's night, for as long as it is held."""

    def __init__(self, models: EngineModels) -> None:
        self._models = models
        self._stack = contextlib.ExitStack()
        self._started: dict[tuple[str, float, str | None], Callable[[EngineTask], EngineRun]] = {}
        self._ready_cases: dict[Case, ReadyEngine] = {}

    def __enter__(self) -> NightEngines:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.clear()
        self._ready_cases.clear()
        self._stack.close()

    def examine(self, opened: OpenUnit, subject: Subject, nightly: NightlyConfiguration) -> Examination:
        """Looks at a case once: all that its blocks do not tell."""
        engine, (prepared, data) = subject.case.engine, subject.ready
        ready = self._ready(opened, subject)
        run = ready.run(1, 0)
        is_validated = "validate" in nightly.jobs
        compared = (engine, prepared, subject.runtime, ready.precision, data, run)
        return Examination(
            device_model=opened.device_model,
            provenance=engine_provenance(engine, run),
            figures=engine_figures(run, ()),
            state=read_state(opened.transport),
            file_bytes=run.size_bytes,
            validation=engine_validation(*compared) if is_validated else Validation(),
        )

    def block(self, opened: OpenUnit, subject: Subject, nightly: NightlyConfiguration, arm: str, rerun: bool) -> Block:
        """Rounds of a fresh process; again after a rest where heat slowed the unit down."""
        ready = self._ready(opened, subject)
        block = ready.block(opened, nightly.rounds, nightly.warmup, arm, nightly.rest, by_figures=True)
        return block.model_copy(update={"rerun": rerun})

    def _ready(self, opened: OpenUnit, subject: Subject) -> ReadyEngine:
        """A case's engine, looked up once: that reads engines.yml."""
        if subject.case not in self._ready_cases:
            self._ready_cases[subject.case] = self._made_ready(opened, subject)
        return self._ready_cases[subject.case]

    def _made_ready(self, opened: OpenUnit, subject: Subject) -> ReadyEngine:
        (prepared, data), execution = subject.ready, subject.load.execution
        engine = subject.case.engine
        unit = engine_unit(engine, opened, prepared, execution)
        key = (engine, unit.round_limit_s, execution.over(prepared.settings.execution).cpu_affinity_policy)
        if key not in self._started:
            self._started[key] = self._stack.enter_context(started(engine, prepared, subject.runtime, unit))
        start, model = self._started[key], self._models.of(prepared)
        return ready_of(engine, start, unit, prepared, model, subject.runtime, data, execution)
