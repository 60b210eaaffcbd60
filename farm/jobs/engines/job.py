"""`farm engines`: every engine that takes a model, in turns on each unit, and which of them is the fastest there.

Each engine runs alone first, and what fails or answers wrongly there is a row with its reason, out of the turns. A turn
then has a block of every other engine, in random order: a fresh process that loads the model and runs some rounds. What
a process got by chance (places in memory, clocks) is drawn anew with every block, so a block's median is one replicate.
Turns are kept as they are measured (farm/jobs/turn_journal.py), so that an interrupted job goes on from them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from farm.config.deployment import FARMRT, Deployment, Runtime
from farm.config.inventory import Unit
from farm.decision.fastest import least_turns, standings
from farm.engines.base import EngineRun
from farm.engines.registry import at_version, engines, named_engines
from farm.jobs.engines.lanes import engine_figures, engine_provenance, engine_validation, ready_in, run_key
from farm.jobs.engines.ready import EngineModels, ReadyEngine, measured_blocks, runtimes_of
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.job_rows import identity_of, is_beyond_row, is_ok, unit_groups
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Failed, Prepared, TestData, prepare_all, validation_data
from farm.jobs.turn_journal import GOES_ON, TurnFiles, TurnJournal
from farm.jobs.validate import Validation
from farm.rows.engines import EnginesResult, EnginesRow, EngineTurns, Standing
from farm.rows.nightly_block import Block
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Throttling, UnitStates
from farm.rows.status import Status
from farm.transport.interruption import WaitInterrupted
from farm.workspace import Workspace, file_part
from runtime.errors import ConfigError, FarmError

TURNS, ROUNDS, MOST_ROUNDS = 8, 10, 1000
BLOCK_MS, LEAST_MS = 400.0, 1e-3


@dataclasses.dataclass(frozen=True)
class EnginesOptions:
    """What `farm engines` was asked for; no engines: farmrt and all that are installed here.

    `against`: a version that the only engine is compared with. `fresh`: forgets an interrupted call's turns.
    `turns` None: what an interval needs, 8 at least; `rounds` None: as many as fill BLOCK_MS, since a core is lost for
    some ms at any time.
    """

    engines: tuple[str, ...] = ()
    against: str = ""
    turns: int | None = None
    rounds: int | None = None
    warmup: int = 1
    fresh: bool = False
    load: LoadOptions = dataclasses.field(default_factory=LoadOptions)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The engines that take part; ConfigError for a name that is none."""
        if self.against:
            return named_engines((*self.engines, self._other_version))
        installed = (name for name, engine in engines().items() if not engine.missing())
        return named_engines(self.engines or (FARMRT, *installed))

    @property
    def _other_version(self) -> str:
        if len(self.engines) != 1:
            raise ConfigError(f"--against {self.against} is a version of one engine: name it once, with --engine")
        return at_version(self.engines[0], self.against)


def engines_job(
    deployment: Deployment,
    units: Sequence[Unit],
    options: EnginesOptions,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[EnginesRow]:
    """A row for each unit, model, engine and runtime of it.

    An interrupted job gives the rows of what was measured by then before it raises KeyboardInterrupt.
    """
    wanted, files, are_over = options.wanted, TurnFiles(options.fresh), True
    with TemporaryDirectory() as scratch:
        made = EngineModels(Path(scratch))
        matches = [
            _Match(model, wanted, options, made, files) for model in prepare_all(deployment, True, progress.here)
        ]
        if not any(match.lanes for match in matches):
            raise ConfigError(f"{deployment.path}: no model runs on its runtime in these engines")
        groups = unit_groups(units, fleet.spread)
        jobs: list[Job[list[EnginesRow], OpenUnit]] = []
        for match, group in itertools.product(matches, groups):
            if isinstance(match.model, Failed):
                yield from match.failed(group[0], match.model.error)
            else:
                jobs.append(Job(group, match.run, _all_ok, match.failed))
        try:
            for rows in run_jobs(jobs, fleet, progress):
                are_over = are_over and not any(row.status in GOES_ON for row in rows)
                yield from rows
        except KeyboardInterrupt:  # the units' threads have ended
            for match in matches:
                yield from match.interrupted
            raise
    if are_over:
        files.remove()


def _all_ok(rows: Sequence[EnginesRow]) -> bool:
    return all(map(is_ok, rows))


@dataclasses.dataclass(frozen=True)
class _Lane:
    """An engine and one of the runtimes that it has."""

    engine: str
    runtime: Runtime

    def __str__(self) -> str:
        return f"{self.engine}, {self.runtime}"


@dataclasses.dataclass
class _Measured:
    """What is known of a lane: its first run alone, the samples of its blocks, or the error that ended it."""

    first: EngineRun | None = None
    validation: Validation = dataclasses.field(default_factory=Validation)
    blocks: list[Block] = dataclasses.field(default_factory=list)
    error: FarmError | None = None

    @property
    def medians(self) -> tuple[float, ...]:
        return tuple(statistics.median(block.samples) for block in self.blocks)


@dataclasses.dataclass(frozen=True)
class _Match:
    """A model, to be run by all engines on some unit; `interrupted`: rows of units on which that was."""

    model: Prepared | Failed
    engines: tuple[str, ...]
    options: EnginesOptions
    engine_models: EngineModels
    files: TurnFiles
    interrupted: list[EnginesRow] = dataclasses.field(default_factory=list)

    @property
    def lanes(self) -> list[_Lane]:
        settings, is_named = self.model.settings, bool(self.options.engines)
        return [
            _Lane(engine, runtime) for engine in self.engines for runtime in runtimes_of(engine, settings, is_named)
        ]

    def failed(self, unit: Unit, error: FarmError) -> list[EnginesRow]:
        """The rows of a unit that could not even begin."""
        return [self._row(unit, lane, UnitStates(), Failure.of(error)) for lane in self.lanes]

    def run(self, opened: OpenUnit) -> Iterator[list[EnginesRow]]:
        """All rows of a unit. Raises what tells that the unit itself is gone."""
        assert isinstance(self.model, Prepared)
        before, found = opened.state(), {lane: _Measured() for lane in self.lanes}
        with contextlib.ExitStack() as stack:
            try:
                self._measure(opened, self.model, found, stack)
            except (WaitInterrupted, KeyboardInterrupt):
                known = {lane: each for lane, each in found.items() if each.first or each.error}
                self.interrupted.extend(self._rows(opened, known, UnitStates(state_before=before)))
                raise
        yield self._rows(opened, found, UnitStates(state_before=before, state_after=opened.state()))

    def _measure(
        self, opened: OpenUnit, model: Prepared, found: Mapping[_Lane, _Measured], stack: contextlib.ExitStack
    ) -> None:
        data = validation_data(model)
        ready: dict[_Lane, ReadyEngine] = {}
        for lane in found:
            opened.progress.stage(f"{model.name} ({lane}): alone")
            with _kept(opened, found[lane]):
                made = ready_in(lane.engine, opened, model, lane.runtime, data, self.engine_models, self.options.load)
                ready[lane] = stack.enter_context(made)
                self._rehearse(opened, model, lane, ready[lane], data, found[lane])
        self._turns(opened, ready, found, data)

    def _rows(self, opened: OpenUnit, found: Mapping[_Lane, _Measured], states: UnitStates) -> list[EnginesRow]:
        places = standings({lane: each.medians for lane, each in found.items() if _is_in(each) and each.blocks})
        return [self._lane_row(opened, lane, each, states, places.get(lane)) for lane, each in found.items()]

    def _rehearse(
        self, opened: OpenUnit, model: Prepared, lane: _Lane, ready: ReadyEngine, data: TestData, found: _Measured
    ) -> None:
        first = ready.run(1, 0)
        found.validation = engine_validation(lane.engine, model, lane.runtime, ready.precision, data, first)
        found.first = first

    def _turns(
        self, opened: OpenUnit, ready: Mapping[_Lane, ReadyEngine], found: Mapping[_Lane, _Measured], data: TestData
    ) -> None:
        """Turns of all that are in. One in which an engine fails does not count: it is measured again without it."""
        folder = Workspace(self.model.deployment.library_name).folder / "engines" / file_part(opened.unit.name)
        path = self.files.use(folder / f"{self.model.name}.turns.jsonl")
        order = random.Random(f"{opened.unit.name}/{self.model.name}")
        turns = self.options.turns or max(TURNS, least_turns(sum(map(_is_in, found.values()))))
        done = 0
        while done < turns and (lanes := [lane for lane, each in found.items() if _is_in(each)]):
            journal = TurnJournal(path, self._key(opened, lanes, found, data), 0)
            left = turns - done
            for blocks in journal.turns[:left]:
                _add(found, lanes, blocks)
                done += 1
            while done < turns:
                opened.progress.stage(f"{self.model.name}: turn {done + 1} of {turns}")
                turn: dict[_Lane, Block] = {}
                for lane in order.sample(lanes, len(lanes)):
                    with _kept(opened, found[lane]):
                        rounds = self.options.rounds or _rounds(found[lane])
                        run = functools.partial(ready[lane].timed, rounds, self.options.warmup)
                        (turn[lane],) = measured_blocks(opened, {lane.engine: run})
                blocks = tuple(turn[lane] for lane in lanes if lane in turn)
                if len(blocks) < len(lanes):
                    break
                journal.add(*blocks)
                _add(found, lanes, blocks)
                done += 1

    def _key(self, opened: OpenUnit, lanes: Sequence[_Lane], found: Mapping[_Lane, _Measured], data: TestData) -> str:
        """Names all that a turn follows from."""
        runs = [run_key(lane.engine, lane.runtime, run, data) for lane in lanes if (run := found[lane].first)]
        of_unit = (opened.unit.name, opened.unit.serial, opened.opencl_library)
        return hashlib.sha256(repr((of_unit, self._settings, runs)).encode()).hexdigest()

    def _lane_row(
        self, opened: OpenUnit, lane: _Lane, found: _Measured, states: UnitStates, standing: Standing | None
    ) -> EnginesRow:
        if found.error or not found.first:
            outcome: EnginesResult | Failure = Failure.of(found.error or FarmError("it did not run"))
            return self._row(opened.unit, lane, states, outcome)
        samples_ms = [sample for block in found.blocks for sample in block.samples] or found.first.samples_ms
        throttled = "; ".join(dict.fromkeys(block.throttled for block in found.blocks if block.throttled))
        outcome = EnginesResult(
            ending=found.validation.ending,
            device_model=opened.device_model,
            provenance=engine_provenance(lane.engine, found.first),
            throttling=Throttling(throttled=throttled),
            figures=engine_figures(found.first, samples_ms),
            comparison=found.validation.comparison,
            turns=EngineTurns(blocks_ms=found.medians, standing=standing),
        )
        return self._row(opened.unit, lane, states, outcome)

    def _row(self, unit: Unit, lane: _Lane, states: UnitStates, outcome: EnginesResult | Failure) -> EnginesRow:
        identity = identity_of(unit, self.model, lane.runtime, lane.engine)
        return make_row(EnginesRow, identity, Conditions(self._settings, states), outcome)

    @property
    def _settings(self) -> Mapping[str, Any]:
        options = self.options
        execution = options.load.execution.over(self.model.settings.execution).given
        given = {"turns": options.turns, "rounds": options.rounds, "warmup": options.warmup}
        return {name: value for name, value in given.items() if value is not None} | execution


def _add(found: Mapping[_Lane, _Measured], lanes: Sequence[_Lane], blocks: Sequence[Block]) -> None:
    for lane, block in zip(lanes, blocks, strict=True):
        found[lane].blocks.append(block)


def _rounds(found: _Measured) -> int:
    """How many rounds fill a block, by those of the run alone."""
    assert found.first
    return min(max(ROUNDS, math.ceil(BLOCK_MS / max(statistics.median(found.first.samples_ms), LEAST_MS))), MOST_ROUNDS)


def _is_in(found: _Measured) -> bool:
    """Whether a lane takes part in the turns: it tells its rounds' times, and answers rightly as far as is known."""
    is_right = found.validation.ending.status in (Status.OK, Status.NO_REFERENCE)
    return found.error is None and is_right and found.first is not None and bool(found.first.samples_ms)


@contextlib.contextmanager
def _kept(opened: OpenUnit, found: _Measured) -> Iterator[None]:
    """Keeps an error as the end of one lane, except one that is more: the user's, or of a unit that is gone."""
    try:
        yield
    except FarmError as error:
        if is_beyond_row(error, opened):
            raise
        found.error = error
