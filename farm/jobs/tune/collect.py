"""From verdicts to artifacts: the tuned parameters of a library, and the kernels that its models' proofs compiled.

A draft holds what the search found. It is published for the models that it was proved on (proof.py); for the others,
what was in force stays.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from farm import artifacts
from farm.artifacts import LaunchRecord, ModelRecord, SetRecord
from farm.jobs.compare.interleaved import TunedFiles
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData
from farm.jobs.tune.built_programs import BUILT_PROGRAMS
from farm.jobs.tune.search import ModelTuning
from farm.jobs.tune.trials import use_name
from farm.rows.row import versions
from runtime.plan.artifacts import (
    Fingerprint,
    KernelSet,
    TunedEntry,
    TunedSet,
    decode_kernels,
    encode_tuned,
    fingerprint_of,
    merge_kernels,
)
from tuner.verdict import LaunchVerdict, default_kept

UNPROVED = "the models that use it gain nothing"

Table = Mapping[str, TunedEntry]


@dataclasses.dataclass(frozen=True)
class Destination:
    """Where the artifacts of a library lie, and for which device."""

    tuned_file: Path
    kernels_file: Path
    fingerprint: Fingerprint
    device_model: str

    @classmethod
    def of(cls, opened: OpenUnit, library: str, model: ModelTuning) -> Destination:
        """Returns the destination of a unit's artifacts."""
        return cls(*opened.planner.artifact_files(library), fingerprint_of(model.target), opened.device_model)

    @property
    def files(self) -> TunedFiles:
        """The tuned parameters and the compiled kernels that a plan is loaded with."""
        return TunedFiles(self.tuned_file, self.kernels_file)

    @property
    def files_there(self) -> TunedFiles:
        """Those of the files that there are: compiled kernels that failed their trial are put aside."""
        tuned, kernels = (path if path.is_file() else None for path in (self.tuned_file, self.kernels_file))
        return TunedFiles(tuned, kernels)

    def tuned_set(self, table: Table) -> TunedSet:
        """A table as a set of a file."""
        return TunedSet(self.fingerprint, self.device_model, tuple(table.values()))

    def in_force(self) -> Table:
        """The table that the device uses so far, by tuning key."""
        known = artifacts.set_in_force(self.tuned_file, self.fingerprint)
        return {entry.key: entry for entry in known.entries} if isinstance(known, TunedSet) else {}


@dataclasses.dataclass(frozen=True)
class Draft:
    """What a search found for the models of a library, over what is in force."""

    destination: Destination
    models: tuple[ModelTuning, ...]
    in_force: Table

    @property
    def table(self) -> Table:
        """The table that the search proposes."""
        return self.accepting(self.models)

    def accepting(self, accepted: Iterable[ModelTuning]) -> Table:
        """What is in force, with the launches of the accepted models; a launch that was unknown has its default.

        Launches of a plan that was not accepted stay out.
        """
        accepted = list(accepted)
        wanted = {verdict.launch.key for model in accepted for verdict in model.verdicts}
        table = dict(self.in_force)
        for verdict in _measured(model for model in self.models if model in accepted or not model.is_new_plan):
            if verdict.launch.key in wanted or math.isnan(verdict.default_ns):
                table[verdict.launch.key] = entry_of(verdict)
            elif verdict.launch.key not in table:
                table[verdict.launch.key] = entry_of(default_kept(verdict.launch, verdict.default_ns, UNPROVED))
        return table

    def changes(self, model: ModelTuning) -> bool:
        """Whether its plan, or a launch, would be another one than what is in force, or than the default."""
        return model.is_new_plan or any(
            _choice(entry_of(verdict)) != _choice(self._known(verdict)) for verdict in _measured([model])
        )

    def differs_from_default(self, model: ModelTuning) -> bool:
        """Whether what is in force for the model is anything but the default plan and the default of every launch."""
        if model.is_new_plan:
            return model.in_force.choice is not None or any(
                step.tuning_key in self.in_force for step in model.in_force.plan.steps
            )
        return model.in_force.choice is not None or any(
            _choice(self._known(verdict)) != _choice(_default_entry(verdict)) for verdict in model.verdicts
        )

    def _known(self, verdict: LaunchVerdict) -> TunedEntry:
        """What is in force for a launch: the default where no table says otherwise."""
        return self.in_force.get(verdict.launch.key, _default_entry(verdict))

    @property
    def is_in_force(self) -> bool:
        """Whether nothing would be published: each launch is in force as it is proposed, with compiled kernels."""
        is_known = all(verdict.launch.key in self.in_force for verdict in _measured(self.models))
        return is_known and self.destination.kernels_file.is_file() and not any(map(self.changes, self.models))

    def files(self, opened: OpenUnit, folder: Path) -> TunedFiles:
        """What a proof loads: the proposed table, written into a folder; what is in force where that is the same."""
        if self.is_in_force:
            return self.destination.files
        tuned_file = folder / "tuned.bin"
        tuned_file.write_bytes(encode_tuned([self.destination.tuned_set(self.table)]))
        return TunedFiles(tuned_file, built=BUILT_PROGRAMS.of(opened).file)


def draft(opened: OpenUnit, library: str, models: Sequence[ModelTuning]) -> Draft:
    """What a search found for the models of a library; nothing is published."""
    destination = Destination.of(opened, library, models[0])
    return Draft(destination, tuple(models), destination.in_force())


def publish_draft(
    opened: OpenUnit,
    proposed: Draft,
    accepted: Sequence[ModelTuning],
    evidence: Iterable[ModelRecord],
    settings: Mapping[str, Any],
) -> None:
    """Publishes the table for the accepted models. Where that changes nothing, the files stay as they are."""
    destination, table = proposed.destination, proposed.accepting(accepted)
    has_new_plan = any(model.is_new_plan for model in accepted)
    if table == proposed.in_force and destination.kernels_file.is_file() and not has_new_plan:
        return
    tuned = destination.tuned_set(table)
    with TemporaryDirectory() as folder:
        tuned_file = Path(folder, "tuned.bin")
        tuned_file.write_bytes(encode_tuned([tuned]))
        used = [model if model in accepted else model.incumbent for model in proposed.models]
        files = [_compiled(opened, model, tuned_file) for model in used]
    (kernels,), _ = merge_kernels(one for file in files for one in decode_kernels(file, "compiled kernels"))
    kernels = dataclasses.replace(kernels, device_model=tuned.device_model)
    record = _record(opened, proposed, accepted, evidence, settings)
    opened.lease.check(certain=True)  # a successor may have published since
    artifacts.publish(destination.tuned_file, tuned, destination.kernels_file, _with_others(proposed, kernels), record)


def _with_others(proposed: Draft, kernels: KernelSet) -> KernelSet:
    """With the programs of models of the library that were not tuned this time."""
    own = {verdict.launch.key for model in proposed.models for verdict in model.verdicts}
    known = artifacts.set_in_force(proposed.destination.kernels_file, proposed.destination.fingerprint)
    if own >= set(proposed.in_force) or not isinstance(known, KernelSet):
        return kernels
    return dataclasses.replace(kernels, binaries={**known.binaries, **kernels.binaries})


def _record(
    opened: OpenUnit,
    proposed: Draft,
    accepted: Sequence[ModelTuning],
    evidence: Iterable[ModelRecord],
    settings: Mapping[str, Any],
) -> SetRecord:
    """Where the set comes from; what is known of launches and models that stay is kept."""
    keys = {verdict.launch.key for model in accepted for verdict in model.verdicts}
    record = SetRecord(
        fingerprint=dataclasses.asdict(proposed.destination.fingerprint),
        device_model=opened.device_model,
        unit=opened.unit.name,
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions=versions(),
        settings=dict(settings),
        launches=(),
    )
    before = artifacts.usable_manifest(proposed.destination.tuned_file.parent).set_like(record)
    launches = {launch.key: launch for launch in before.launches} if before else {}
    for verdict in _by_key(proposed.models):
        if verdict.launch.key in keys or verdict.launch.key not in launches:
            launches[verdict.launch.key] = _launch_record(verdict, proposed.models)
    models = {model.model: model for model in before.models} if before else {}
    models |= {model.model: model for model in evidence}
    return record.model_copy(update={"launches": tuple(launches.values()), "models": tuple(models.values())})


def _by_key(models: Iterable[ModelTuning]) -> list[LaunchVerdict]:
    """Returns the launches of all models by tuning key, each once."""
    return list({verdict.launch.key: verdict for model in models for verdict in model.verdicts}.values())


def _measured(models: Iterable[ModelTuning]) -> list[LaunchVerdict]:
    """Every launch that was measured, also where the default stays: that is known to be right."""
    return [verdict for verdict in _by_key(models) if verdict.runs and math.isfinite(verdict.tuned_ns)]


def entry_of(verdict: LaunchVerdict) -> TunedEntry:
    """The chosen launch as an entry of a table."""
    launch, chosen = verdict.launch, verdict.chosen
    return TunedEntry(
        key=launch.key,
        kernel=launch.kernel.name,
        options=launch.options(chosen.variant),
        block=launch.block(chosen.variant),
        work_dim=len(launch.work_items(chosen.variant)),
        global_size=launch.global_size(chosen.variant, chosen.local_size),
        local_size=chosen.local_size,
        default_ns=round(verdict.default_ns) if math.isfinite(verdict.default_ns) else 0,
        tuned_ns=round(verdict.tuned_ns),
    )


def _default_entry(verdict: LaunchVerdict) -> TunedEntry:
    return entry_of(default_kept(verdict.launch, 0.0, ""))


def _choice(entry: TunedEntry) -> TunedEntry:
    """An entry without its times: two searches that chose the same launch have measured it twice."""
    return dataclasses.replace(entry, default_ns=0, tuned_ns=0)


def _launch_record(verdict: LaunchVerdict, models: Sequence[ModelTuning]) -> LaunchRecord:
    names = {use_name(model.prepared) for model in models}
    return LaunchRecord(
        key=verdict.launch.key,
        kernel=verdict.launch.kernel.name,
        uses=sum(use.model in names for use in verdict.launch.uses),
        chosen=str(verdict.chosen),
        default_ns=verdict.default_ns if math.isfinite(verdict.default_ns) else None,
        tuned_ns=verdict.tuned_ns if math.isfinite(verdict.tuned_ns) else None,
        gain_ci=verdict.ratio.gain_interval if verdict.ratio else None,
        reason=verdict.reason,
    )


def _compiled(opened: OpenUnit, model: ModelTuning, tuned_file: Path) -> bytes:
    """The programs of a model, after a run, so that a driver that compiles late has compiled them."""
    settings = model.prepared.settings
    limited, execution = settings.limit_opencl_kernel_time, settings.execution
    built = BUILT_PROGRAMS.of(opened).file
    opened.load(model.plan_file, tuned_file, built, limit_kernel_time=limited, execution=execution)
    opened.write_inputs(TestData(model.prepared, {}).inputs)
    opened.first_round()
    kernels = tuned_file.with_name("kernels.bin")
    opened.save_kernels(kernels)
    return kernels.read_bytes()
