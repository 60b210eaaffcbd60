"""One case of a nightly run on a unit: what is looked at once a night, and the blocks that are timed."""

import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.config.deployment import Runtime
from farm.farmrt.answers import waited_share
from farm.jobs.benchmark import profile
from farm.jobs.fleet.execution import execution_figures, peak_memory
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import judge_further
from farm.jobs.loading import LoadedModel, LoadOptions, load_model, provenance_of
from farm.jobs.models.prepare import Failed, Prepared, TestData
from farm.jobs.run import RoundTimes, run_rounds
from farm.jobs.tune.tuned_check import TunedCheck, check_tuned
from farm.jobs.validate import Validation, compare_outputs, with_half_range
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, OperatorTime
from farm.rows.profile import operators
from farm.rows.row import Ending, Provenance, row_fingerprint
from farm.rows.run import RunFigures
from farm.rows.series import Case
from farm.workspace import data_file
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan

PROFILED_ROUNDS = 5
DRIVER_FACTS = ("gpu", "driver", "opencl")  # of a fingerprint; the rest of it is software of farm


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """A case, with what it takes to measure it; a model that cannot be converted has no `data`."""

    case: Case
    model: Prepared | Failed
    runtime: Runtime
    load: LoadOptions
    data: TestData | None

    @property
    def ready(self) -> tuple[Prepared, TestData]:
        """What is measured; of a model that cannot be converted there is nothing."""
        assert isinstance(self.model, Prepared) and self.data, "only these are measured"
        return self.model, self.data


@dataclasses.dataclass(frozen=True)
class Software:
    """What a case ran tonight, so that later nights can run it again.

    `files` by role; `settings`, plain data, say how they are loaded and executed, and all else that makes it the same
    software; `build` names the build of another program than farmrt; `facts` are of the unit's drivers.
    """

    files: Mapping[str, Path]
    settings: Mapping[str, Any]
    build: str = ""
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Examination:
    """What is looked at once a night: outputs, operators' times, memory, size of files, stored tuned files.

    `software` is what ran; None where that cannot be run again in a later night.
    """

    device_model: str
    provenance: Provenance
    figures: RunFigures
    state: DeviceState
    file_bytes: Mapping[str, int]
    validation: Validation
    software: Software | None = None
    ops: tuple[OperatorTime, ...] = ()
    tuned_check: TunedCheck = dataclasses.field(default_factory=TunedCheck)

    @property
    def ending(self) -> Ending:
        """Returns how the case ends: as wrong where its outputs are, with or without the stored tuned files."""
        return self.tuned_check.ending or self.validation.ending


def examine(opened: OpenUnit, subject: Subject, nightly: NightlyConfiguration) -> Examination:
    """Looks at a case once: all that its blocks do not tell."""
    _, data = subject.ready
    loaded = _loaded(opened, subject)
    opened.write_inputs(data.inputs)
    first = run_rounds(opened, 1, 0)
    return Examination(
        device_model=opened.device_model,
        software=_software(opened, loaded),
        provenance=provenance_of(opened, loaded),
        figures=_figures(opened, subject, loaded, first),
        file_bytes=_file_bytes(opened, loaded),
        state=opened.state(),
        ops=_operator_times(opened, loaded, first.first_ms) if "benchmark" in nightly.jobs else (),
        validation=_validated(opened, subject, loaded) if "validate" in nightly.jobs else Validation(),
        tuned_check=_tuned_checked(opened, subject, nightly),
    )


def _software(opened: OpenUnit, loaded: LoadedModel) -> Software:
    paths = {
        "farmrt": Path(build_farmrt(opened.unit.abi)),
        "plan": loaded.plan_file,
        "weights": data_file(loaded.plan_file),
        "tuned": loaded.tuned,
        "kernels": loaded.kernels,
        "selection": loaded.planned.file,
    }
    is_limited = loaded.prepared.settings.limit_opencl_kernel_time
    fingerprint = row_fingerprint(loaded.plan.target)
    return Software(
        files={role: path for role, path in paths.items() if path},
        settings={"execution": loaded.execution.given, "limit_kernel_time": is_limited},
        facts={name: fingerprint[name] for name in DRIVER_FACTS if fingerprint.get(name)},
    )


def _figures(opened: OpenUnit, subject: Subject, loaded: LoadedModel, first: RoundTimes) -> RunFigures:
    """What farmrt said when it loaded the model; the times of rounds are those of blocks."""
    load, memory = loaded.answer, peak_memory(opened, subject.runtime)
    return RunFigures(
        init_ms=load.init_ms,
        memory_bytes=load.memory,
        tuned=load.tuned_use,
        kernels=load.kernels_use,
        selection=loaded.planned.use,
        **dict(execution_figures(load, loaded.execution, first.answer, memory)),
    )


def _validated(opened: OpenUnit, subject: Subject, loaded: LoadedModel) -> Validation:
    prepared, data = subject.ready
    validation = compare_outputs(prepared, loaded.plan.target, data.expected, opened.read_outputs(loaded.plan))
    validation = with_half_range(validation, loaded.plan.target, data)
    return judge_further(opened, prepared, data, validation, loaded.keeping(opened), loaded.plan)


def _tuned_checked(opened: OpenUnit, subject: Subject, nightly: NightlyConfiguration) -> TunedCheck:
    """Checks the stored tuned files, where the case is one that uses them."""
    prepared, data = subject.ready
    if "tune_check" not in nightly.jobs or subject.runtime != "gpu" or subject.load.tuned is not None:
        return TunedCheck()
    execution = subject.load.execution
    return check_tuned(
        opened, prepared, subject.runtime, data, subject.load.memory, rest=nightly.rest, execution=execution
    )


def measure_block(opened: OpenUnit, subject: Subject, nightly: NightlyConfiguration, arm: str, rerun: bool) -> Block:
    """Loads the model anew and times some rounds; again after a rest where heat slowed the unit down."""
    _, data = subject.ready

    def measure() -> tuple[float, RoundTimes]:
        loaded = _loaded(opened, subject)
        opened.write_inputs(data.inputs)
        return loaded.answer.init_ms, run_rounds(opened, nightly.rounds, nightly.warmup)

    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    sample = opened.measured(measure, nightly.rest)
    init_ms, times = sample.value
    return Block(
        time=begun,
        arm=arm,
        rerun=rerun,
        init_ms=init_ms,
        first_ms=times.first_ms,
        samples=times.samples_ms,
        throttled=sample.cause,
        waited_share=waited_share([times.answer]),
        state_before=sample.before,
        state_after=sample.after,
    )


def _loaded(opened: OpenUnit, subject: Subject) -> LoadedModel:
    prepared, _ = subject.ready
    target = opened.planner.target(prepared, subject.runtime, subject.load.memory)
    return load_model(opened, prepared, subject.runtime, target, subject.load)


def _operator_times(opened: OpenUnit, loaded: LoadedModel, round_ms: float) -> tuple[OperatorTime, ...]:
    deadline_s = rounds_deadline_s(PROFILED_ROUNDS, round_ms)
    times = profile(opened.session, PROFILED_ROUNDS, len(loaded.plan.steps), deadline_s).steps
    ops = operators(loaded.plan.steps, times)
    return tuple(OperatorTime(name=op.name, type=op.type, avg_ms=op.avg_ms) for op in ops)


def _file_bytes(opened: OpenUnit, loaded: LoadedModel) -> dict[str, int]:
    """Sizes of all that a unit needs to run the model."""
    return {
        "farmrt": Path(build_farmrt(opened.unit.abi)).stat().st_size,
        "plan": len(encode_plan(loaded.plan)),
        "weights": len(loaded.plan.data),
    }
