"""One case of a nightly run on a unit: what is looked at once a night, and the blocks that are timed."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

from farm.condition.device_state import read_state
from farm.config.deployment import Runtime
from farm.jobs.benchmark import profile
from farm.jobs.fleet.job_rows import Members
from farm.jobs.fleet.unit import OpenUnit, rounds_deadline_s
from farm.jobs.models.prepare import Failed, Prepared, TestData
from farm.jobs.run import NS_PER_MS, Loaded, LoadOptions, load_model, loaded_members, run_rounds
from farm.jobs.tune.tuned_check import check_tuned
from farm.jobs.validate import output_members, with_half_range
from farm.nightly.file import Nightly
from farm.rows.nightly import Block, OperatorTime
from farm.rows.profile import operators
from farm.rows.series import Case
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan

PROFILED_ROUNDS = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """A case, with what it takes to measure it; a model that cannot be converted has no `data`."""

    case: Case
    found: Prepared | Failed
    runtime: Runtime
    load: LoadOptions
    data: TestData | None


def examine(opened: OpenUnit, subject: Subject, nightly: Nightly) -> Members:
    """What is looked at once a night: outputs, operators' times, memory, size of files, stored tuned files."""
    prepared, data = _ready(subject)
    loaded = _loaded(opened, subject)
    opened.write_inputs(data.inputs)
    first = run_rounds(opened, 1, 0)
    members = loaded_members(opened, loaded, subject.load) | {"file_bytes": _file_bytes(opened, loaded)}
    members |= {"state_before": read_state(opened.transport)}
    if "validate" in nightly.jobs:
        compared = output_members(prepared, subject.runtime, data.expected, opened.read_outputs(loaded.plan))
        members |= with_half_range(compared, loaded.plan.target.precision, data)
    if "benchmark" in nightly.jobs:
        members |= {"ops": _operator_times(opened, loaded, first["first_ms"])}
    if "tune_check" in nightly.jobs and subject.runtime == "gpu" and subject.load.tuned is None:
        members |= check_tuned(opened, prepared, subject.runtime, data, subject.load.memory, rest=nightly.rest)
    return members


def measure_block(opened: OpenUnit, subject: Subject, nightly: Nightly, arm: str, rerun: bool) -> Block:
    """Loads the model anew and times some rounds; again after a rest where heat slowed the unit down."""
    _, data = _ready(subject)

    def measure() -> tuple[float, dict[str, Any]]:
        loaded = _loaded(opened, subject)
        opened.write_inputs(data.inputs)
        return loaded.answer["init_ms"], run_rounds(opened, nightly.rounds, nightly.warmup)

    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found = opened.measured(measure, nightly.rest)
    init_ms, timed = found.value
    return Block(
        time=begun,
        arm=arm,
        rerun=rerun,
        init_ms=init_ms,
        first_ms=timed["first_ms"],
        samples=tuple(sample / NS_PER_MS for sample in timed["wall_ns"]),
        throttled=found.throttled,
        state_before=found.before,
        state_after=found.after,
    )


def _ready(subject: Subject) -> tuple[Prepared, TestData]:
    assert isinstance(subject.found, Prepared) and subject.data, "only these are measured"
    return subject.found, subject.data


def _loaded(opened: OpenUnit, subject: Subject) -> Loaded:
    prepared, _ = _ready(subject)
    target = opened.target(prepared, subject.runtime, subject.load.memory)
    return load_model(opened, prepared, subject.runtime, target, subject.load)


def _operator_times(opened: OpenUnit, loaded: Loaded, round_ms: float) -> tuple[OperatorTime, ...]:
    deadline_s = rounds_deadline_s(PROFILED_ROUNDS, round_ms)
    times, _ = profile(opened.session, PROFILED_ROUNDS, len(loaded.plan.steps), deadline_s)
    found = operators(loaded.plan.steps, times)
    return tuple(OperatorTime(name=each.name, type=each.type, avg_ms=each.avg_ms) for each in found)


def _file_bytes(opened: OpenUnit, loaded: Loaded) -> dict[str, int]:
    """Sizes of all that a unit needs to run the model."""
    return {
        "farmrt": Path(build_farmrt(opened.unit.abi)).stat().st_size,
        "plan": len(encode_plan(loaded.plan)),
        "weights": len(loaded.plan.data),
    }
