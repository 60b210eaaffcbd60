"""`farm compare` of two builds of farm, or of two versions of a model: measured in turns on one unit, then decided."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config.deployment import FARMRT, Deployment, Model, Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.decision.comparison import compare_figures, decide_turns
from farm.decision.operator_changes import OperatorChange, operator_changes
from farm.jobs.compare.bundle import Bundle, UnitProbe
from farm.jobs.compare.contender import Contender
from farm.jobs.compare.duet import (
    ARMS,
    Arm,
    Entry,
    Rehearsal,
    errors_naming,
    profile_turns,
    rehearse,
    run_turns,
    turn_of,
)
from farm.jobs.compare.engine_duel import EngineDuel
from farm.jobs.compare.outcome import agreement, ending_of, side_of, throttled_text
from farm.jobs.engines.ready import runtimes_of
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.execution import execution_figures
from farm.jobs.fleet.job_rows import Settings, rows_of_measures
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions
from farm.jobs.models.prepare import Failed, Prepared, least_exact, prepare_all, random_input
from farm.jobs.turn_journal import GOES_ON, TurnFiles, TurnJournal
from farm.jobs.validate import Validation, compare_within, thresholds_of
from farm.model.fetch import Fetcher
from farm.model.own_values import deployed_inputs
from farm.rows.compare import CompareResult, CompareRow, OperatorDifference, Side
from farm.rows.core_waits import mean_share
from farm.rows.execution import ExecutionFigures
from farm.rows.nightly import Block
from farm.rows.row import Provenance, Throttling
from farm.rows.run import RunFigures
from farm.workspace import Workspace, file_part
from runtime.errors import ConfigError
from runtime.graph import Array


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """What `farm compare` was asked for; `seed` decides who begins a turn.

    `models`: only these of the file, all where there are none. `profiled_turns`: how often operators are timed.
    `repeat`: how often all of it is done. `fresh`: turns of an interrupted call are measured again.
    """

    turns: int = 10
    margin_percent: float = 1.0
    runtimes: tuple[Runtime, ...] = ("cpu", "gpu")
    memory: str | None = None
    seed: int = 0
    execution: Execution = DEFAULT
    models: tuple[str, ...] = ()
    profiled_turns: int = 0
    repeat: int = 1
    fresh: bool = False


def compare_job(
    both: tuple[Contender, Contender],
    units: Sequence[Unit],
    options: CompareOptions,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[CompareRow]:
    """A row for each unit, model and runtime that both have, and each repetition; ConfigError where there is none.

    Turns are kept until all rows are there, so that an interrupted comparison goes on from them.
    """
    a, _ = both
    of_a = prepare_all(a.source)
    wanted = [model for model in of_a if not options.models or model.name in options.models]
    models = [common for model in wanted if (common := _common(model, both, options))]
    if not models:
        raise ConfigError(f"{a.source.path}: no model that both have runs on {' or '.join(options.runtimes)}")
    for contender, model in itertools.product(both, models):
        contender.engine_of(model.name)  # which may be none that can be compared

    files = TurnFiles(options.fresh)
    are_over = True
    for repetition in range(options.repeat):
        for row in _repetition(both, models, units, options, repetition, files, fleet, progress):
            are_over = are_over and row.status not in GOES_ON
            yield row
    if are_over:
        files.remove()


def _repetition(
    both: tuple[Contender, Contender],
    models: Sequence[Prepared | Failed],
    units: Sequence[Unit],
    options: CompareOptions,
    repetition: int,
    files: TurnFiles,
    fleet: FleetOptions,
    progress: ProgressView,
) -> Iterator[CompareRow]:
    """A row for each unit, model and runtime."""
    a, b = both
    wanted = dataclasses.replace(options, seed=options.seed + repetition)

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> CompareResult:
        folder = _folder(opened, prepared)
        file = files.use(folder / f"{prepared.name}.{runtime}.{repetition}.turns.jsonl")
        if {each.engine_of(prepared.name) for each in both} == {FARMRT}:
            return _Duel(opened, prepared, runtime, both, wanted).result(file)
        load = LoadOptions(memory=wanted.memory, execution=wanted.execution)
        turns, seed, margin = wanted.turns, wanted.seed, wanted.margin_percent
        return EngineDuel(opened, prepared, runtime, both, turns, seed, margin, load).result(file)

    def settings(model: Model, runtime: Runtime) -> Settings:
        return {"turns": wanted.turns, "seed": wanted.seed, **wanted.execution.over(model.execution).given}

    measures = [
        (model, runtime, b.engine_of(model.name), measure) for model in models for runtime in model.settings.runtimes
    ]
    for row in rows_of_measures(CompareRow, measures, units, settings, fleet, progress):
        yield row if row.a.name else row.model_copy(update={"a": a.side, "b": b.side})


def _common(
    model: Prepared | Failed, both: tuple[Contender, Contender], options: CompareOptions
) -> Prepared | Failed | None:
    """A model of A with the runtimes that both run it on and that were asked for; None without any."""
    shared = shared_runtimes(model.name, both, options.runtimes)
    settings = model.settings.model_copy(update={"runtime": "+".join(shared)})
    return dataclasses.replace(model, settings=settings) if shared else None


def shared_runtimes(model: str, both: Sequence[Contender], among: Sequence[Runtime]) -> list[Runtime]:
    """Those of `among` on which both run a model of A; none where B has no such model."""
    taken = [
        runtimes_of(contender.engine_of(model), settings, True, among)
        for contender in both
        if (settings := contender.source.models.get(contender.model_name(model)))
    ]
    return [runtime for runtime in taken[0] if len(taken) == 2 and runtime in taken[1]]


def _folder(opened: OpenUnit, prepared: Prepared) -> Path:
    """Where files of a unit's comparisons lie."""
    return Workspace(prepared.deployment.library_name).folder / "compare" / file_part(opened.unit.name)


@dataclasses.dataclass(frozen=True)
class _Duel:
    """A model in one runtime on one unit."""

    opened: OpenUnit
    prepared: Prepared
    runtime: Runtime
    both: tuple[Contender, Contender]
    options: CompareOptions

    def result(self, turns_file: Path) -> CompareResult:
        """Makes both, runs them in turns, and decides; turns that the file has are not run again."""
        entries = [self._entry(arm, contender) for arm, contender in zip(ARMS, self.both, strict=True)]
        journal = TurnJournal(turns_file, self._key(entries), self.options.seed)
        with TemporaryDirectory() as folder:
            a, b = (self._rehearsed(entry, Path(folder)) for entry in entries)
            name, turn = f"{self.prepared.name} ({self.runtime})", turn_of(self.opened, a, b)
            blocks = run_turns(self.opened, name, turn, self.options.turns, journal)
            profiles = profile_turns(self.opened, a, b, self.options.profiled_turns)
        sides = _side(self.both[0], a, blocks), _side(self.both[1], b, blocks)
        notes = plan_notes(a.entry.bundle, b.entry.bundle)
        decided = self._decided(sides, b, blocks, self._outputs_compared(a, b), notes, journal.seed)
        differences = tuple(map(_difference, operator_changes(profiles[1], profiles[0])))
        return dataclasses.replace(decided, compared=decided.compared.model_copy(update={"operators": differences}))

    def _entry(self, arm: Arm, contender: Contender) -> Entry:
        """Makes one of the two."""
        name = contender.model_name(self.prepared.name)
        self.opened.progress.stage(
            f"{self.prepared.name} ({self.runtime}): making {arm.upper()}, {contender.side.name}"
        )
        folder = _folder(self.opened, self.prepared) / f"{self.prepared.name}.{self.runtime}.{arm}"
        with errors_naming(arm):
            probed = UnitProbe.of(self.opened, self.options.memory)
            bundle = contender.bundle(self.prepared.name, self.runtime, probed, folder)
            bundle = bundle.with_execution(self.options.execution)
        return Entry(arm, bundle, folder, _inputs(contender.source, name))

    def _key(self, entries: Sequence[Entry]) -> str:
        """Names all that a turn follows from but the seed."""
        unit = self.opened.unit
        of_unit = (unit.name, unit.serial, self.opened.opencl_library, self.options.turns)
        return hashlib.sha256(repr((of_unit, [entry.key for entry in entries])).encode()).hexdigest()

    def _rehearsed(self, entry: Entry, folder: Path) -> Rehearsal:
        self.opened.progress.stage(f"{self.prepared.name} ({self.runtime}): first run of {entry.arm.upper()}")
        return rehearse(self.opened, entry, folder / f"compare_{entry.arm}.bin")

    def _decided(
        self,
        sides: tuple[Side, Side],
        b: Rehearsal,
        blocks: Sequence[Block],
        outputs: Validation,
        notes: Sequence[str],
        seed: int,
    ) -> CompareResult:
        """What the times say; too few turns that heat did not spoil are a failure."""
        decision = decide_turns(blocks, self.options.margin_percent)
        waited = mean_share(block.waited_share for block in blocks)
        return CompareResult(
            ending=ending_of(decision, blocks) if outputs.is_ok else outputs.ending,
            device_model=self.opened.device_model,
            provenance=self._provenance(b, seed),
            throttling=Throttling(throttled=throttled_text(blocks), waited_share=waited),
            figures=figures_of(sides[1], execution_figures(b.answer, b.entry.bundle.execution)),
            comparison=outputs.comparison,
            compared=compare_figures(*sides, decision, self.options.margin_percent, notes, blocks),
        )

    def _provenance(self, b: Rehearsal, seed: int) -> Provenance:
        library = "" if self.runtime == "cpu" else self.opened.opencl_library
        settings = {**b.entry.bundle.settings, "opencl_library": library, "seed": seed}
        return Provenance(fingerprint=b.entry.bundle.fingerprint, settings=settings)

    def _outputs_compared(self, a: Rehearsal, b: Rehearsal) -> Validation:
        """B's outputs against A's. Two builds must agree, two versions of a model need not."""
        names = self.prepared.data_formats
        if not all(name in side.outputs for name in names for side in (a, b)):
            return Validation()
        precision = max(least_exact(side.entry.bundle.settings["data_type"]) for side in (a, b))
        thresholds = thresholds_of(self.prepared, self.runtime, precision)
        validation = compare_within(thresholds, self.prepared, a.outputs, b.outputs)
        return agreement(validation, self.both[0].side.kind != "model")


def plan_notes(a: Bundle, b: Bundle) -> list[str]:
    """What to know where tuning's choice is valid for one of the two alone, such as a build with other kernels."""
    a_is_chosen, b_is_chosen = (bool(bundle.settings.get("selection_file")) for bundle in (a, b))
    if a_is_chosen == b_is_chosen:
        return []
    chosen, plain = ("A", "B") if a_is_chosen else ("B", "A")
    return [
        f"{chosen}'s plan is made by a choice that tuning kept, which does not fit {plain}: its is made by the rules"
    ]


def _difference(change: OperatorChange) -> OperatorDifference:
    return OperatorDifference(
        name=change.name,
        type=change.kind,
        a_ms=change.before_ms,
        b_ms=change.now_ms,
        difference_ms=change.difference_ms,
        low_ms=change.low_ms,
        high_ms=change.high_ms,
    )


def figures_of(side: Side, execution: ExecutionFigures) -> RunFigures:
    """The figures of one side as those of a run."""
    return RunFigures(
        latency_ms=side.latency_ms,
        init_ms=side.init_ms,
        first_ms=side.first_ms,
        memory_bytes=side.memory_bytes,
        **dict(execution),
    )


def _inputs(source: Deployment, name: str) -> dict[str, Array]:
    """The inputs of the deployment file; seeded noise, the same for inputs of the same name, where it gives none."""
    fetcher = Fetcher(source)
    tensors = deployed_inputs(source, name, fetcher)
    given = fetcher.validation_inputs(name, tensors)
    return {tensor.name: given[tensor.name] if tensor.name in given else random_input(tensor) for tensor in tensors}


def _side(contender: Contender, rehearsal: Rehearsal, blocks: Sequence[Block]) -> Side:
    """Returns the figures of one side after all turns."""
    bundle = rehearsal.entry.bundle
    made_with = Provenance(versions=bundle.versions, fingerprint=bundle.fingerprint)
    memory = rehearsal.answer.memory
    return side_of(contender.side, rehearsal.entry.arm, blocks, bundle.model, made_with, memory)
