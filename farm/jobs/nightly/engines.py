"""Other engines in a unit's night: each is brought to the unit once, and gives blocks and turns as farmrt does."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

from farm.condition.device_state import read_state
from farm.config.execution import Execution
from farm.engines.base import EngineRun, EngineSnapshot, EngineTask
from farm.engines.registry import NamedEngine
from farm.jobs.compare.duet import Turn
from farm.jobs.compare.engine_duel import engine_turn
from farm.jobs.engines.lanes import engine_figures, engine_provenance, engine_validation
from farm.jobs.engines.ready import (
    EngineModels,
    ReadyEngine,
    engine_unit,
    measured_blocks,
    ready_engine,
    ready_of,
    started,
)
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly.case import Examination, Software, Subject
from farm.jobs.validate import Validation
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.bundle import BundleManifest
from farm.rows.nightly import Block
from farm.rows.series import Case
from farm.store.bundle_archive import BundleArchive


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
            software=_software(subject, run),
        )

    def block(self, opened: OpenUnit, subject: Subject, nightly: NightlyConfiguration, arm: str, rerun: bool) -> Block:
        """Rounds of a fresh process; again after a rest where heat slowed the unit down."""
        run = functools.partial(self._ready(opened, subject).timed, nightly.rounds, nightly.warmup, by_figures=True)
        (block,) = measured_blocks(opened, {arm: run}, nightly.rest)
        return block.model_copy(update={"rerun": rerun})

    @contextlib.contextmanager
    def turns(
        self,
        subject: Subject,
        nightly: NightlyConfiguration,
        archive: BundleArchive,
        opened: OpenUnit,
        before: BundleManifest,
        folder: Path,
    ) -> Iterator[Turn]:
        """Turns of the engine of an earlier night's bundle, whose files go to a folder, and of tonight's."""
        (prepared, data), runtime, kept = subject.ready, subject.runtime, before.settings
        snapshot = EngineSnapshot(kept["version"], archive.fetch(before, folder), tuple(kept["arguments"]))
        named, execution = NamedEngine.of(subject.case.engine), Execution(**kept["execution"])
        named = dataclasses.replace(named, engine=named.engine.again(snapshot))
        model = self._models.of(prepared)
        with ready_engine(opened, named, prepared, model, runtime, data, execution) as earlier:
            both = (earlier, self._ready(opened, subject))
            a, b = (functools.partial(each.timed, nightly.rounds, nightly.warmup) for each in both)
            yield engine_turn(opened, {"a": a, "b": b}, nightly.rest)

    def _ready(self, opened: OpenUnit, subject: Subject) -> ReadyEngine:
        """A case's engine, looked up once: that reads engines.yml."""
        if subject.case not in self._ready_cases:
            self._ready_cases[subject.case] = self._made_ready(opened, subject)
        return self._ready_cases[subject.case]

    def _made_ready(self, opened: OpenUnit, subject: Subject) -> ReadyEngine:
        (prepared, data), execution = subject.ready, subject.load.execution
        named, runtime = NamedEngine.of(subject.case.engine), subject.runtime
        unit = engine_unit(named.word, opened, prepared, execution)
        key = (named.word, unit.round_limit_s, execution.over(prepared.settings.execution).cpu_affinity_policy)
        if key not in self._started:
            self._started[key] = self._stack.enter_context(started(named, prepared, runtime, unit))
        start, model = self._started[key], self._models.of(prepared)
        return ready_of(named, start, unit, prepared, model, runtime, data, execution)


def _software(subject: Subject, run: EngineRun) -> Software | None:
    """What ran; None where a later night cannot run it again, or it tells no times to compare."""
    kept, execution = run.snapshot, subject.load.execution.over(subject.ready[0].settings.execution)
    if kept is None or not run.samples_ms:
        return None
    engine = run.hashes.get("engine", "")
    own = {"version": run.version, "arguments": list(kept.arguments), "engine": engine}
    build = engine if "engine" in kept.files else ""  # a release is shipped with the luck of its build
    return Software(kept.files, {**own, "execution": execution.given}, build)
