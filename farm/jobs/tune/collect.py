"""From verdicts to artifacts: the tuned parameters of a library, and the kernels that its tuned models compiled."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from farm import artifacts
from farm.artifacts import LaunchRecord, SetRecord
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData
from farm.jobs.tune.search import Tuned
from farm.jobs.tune.trials import use_name
from farm.rows.row import versions
from farm.workspace import Workspace
from runtime.artifacts import (
    Fingerprint,
    KernelSet,
    TunedEntry,
    TunedSet,
    decode_kernels,
    encode_tuned,
    fingerprint_of,
    merge_kernels,
)
from tuner.verdict import LaunchVerdict


@dataclasses.dataclass(frozen=True)
class Published:
    """The artifacts of a library on a SoC."""

    tuned_file: Path
    kernels_file: Path
    record: SetRecord


def collect(opened: OpenUnit, library: str, models: Sequence[Tuned], settings: Mapping[str, Any]) -> Published:
    """Writes the two files of a library and their manifest from what was found for its models."""
    workspace = Workspace(library)
    names = (opened.unit.abi, opened.device_model, opened.unit.soc)
    tuned_file, kernels_file = workspace.tuned_file(*names), workspace.kernels_file(*names)
    fingerprint = fingerprint_of(models[0].target)
    verdicts = {verdict.launch.key: verdict for model in models for verdict in model.verdicts}
    tuned = TunedSet(fingerprint, opened.device_model, tuple(_entries(verdicts.values())))
    kernels = _compiled(opened, models, tuned)
    record = SetRecord(
        fingerprint=dataclasses.asdict(fingerprint),
        device_model=opened.device_model,
        unit=opened.unit.name,
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions=versions(),
        settings=dict(settings),
        launches=tuple(_launch_record(verdict, models) for verdict in verdicts.values()),
    )
    opened.lease.check(certain=True)  # a successor may have published since
    artifacts.publish(tuned_file, tuned, kernels_file, kernels, record)
    return Published(tuned_file, kernels_file, record)


def _entries(verdicts: Iterable[LaunchVerdict]) -> list[TunedEntry]:
    """An entry for every launch that was measured, also where the default stays: that is known to be right."""
    return [_entry(verdict) for verdict in verdicts if verdict.runs and math.isfinite(verdict.tuned_ns)]


def _entry(verdict: LaunchVerdict) -> TunedEntry:
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


def _launch_record(verdict: LaunchVerdict, models: Sequence[Tuned]) -> LaunchRecord:
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


def _compiled(opened: OpenUnit, models: Sequence[Tuned], tuned: TunedSet) -> KernelSet:
    """Programs of all tuned models, each after a run, so that a driver that compiles late has compiled them."""
    with TemporaryDirectory() as folder:
        tuned_file = Path(folder, "tuned.bin")
        tuned_file.write_bytes(encode_tuned([tuned]))
        sets = [_saved(opened, model, tuned_file, Path(folder, "kernels.bin")) for model in models]
    binaries = merge_kernels(sets)[0][0].binaries
    return KernelSet(_common([kernels.fingerprint for kernels in sets]), tuned.device_model, binaries)


def _saved(opened: OpenUnit, model: Tuned, tuned_file: Path, local: Path) -> KernelSet:
    settings = model.prepared.settings
    limited, execution = settings.limit_opencl_kernel_time, settings.execution
    opened.load(model.plan_file, tuned_file, limit_kernel_time=limited, execution=execution)
    opened.write_inputs(TestData(model.prepared, {}).inputs)
    opened.first_round()
    opened.session.command("save_kernels", file=local.name)
    opened.transport.pull(local.name, local)
    (saved,) = decode_kernels(local.read_bytes(), f"compiled kernels of {model.prepared.name}")
    return saved


def _common(fingerprints: Sequence[Fingerprint]) -> Fingerprint:
    first = fingerprints[0]
    assert all(fingerprint == first for fingerprint in fingerprints), "one device, one fingerprint"
    return first
