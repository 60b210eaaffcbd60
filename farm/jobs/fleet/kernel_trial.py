"""Tries compiled kernels in a farmrt of their own before a model is loaded with them.

A driver believes what is in its binaries: one that is damaged can crash it, hang it, or compute something else,
whatever farmrt has checked before. So a file that is new on a unit, for its driver and for a plan, first runs that plan
there in a process of its own, beside one from source; what fails or differs is put aside, and the model is built from
source.
"""

import contextlib
import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from farm.farmrt.answers import KernelsAnswer, LoadAnswer
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, random_input
from farm.units import tried_kernels
from farm.workspace import refused_file
from runtime.errors import DeadlineError, DeviceError, JobError, ProcessEndedError, ProcessKilledError
from runtime.graph import Array
from runtime.plan.plan import Plan

# Of a driver that keeps kernels by the names that a binary gives itself: a bad one must not replace good ones there.
DRIVER_CACHE = "kernel-trial-cache"
ENVIRONMENT = {"POCL_CACHE_DIR": DRIVER_CACHE}
LEAST_LOAD_S = 60.0
LEAST_ROUND_S = 30.0
SLOWER = 5  # than from source: so much slower the trial may be before it counts as hanging
TOLERANCE = 1e-3  # of the largest value
CLEAN_DEADLINE_S = 60.0
MS_PER_S, NS_PER_S = 1e3, 1e9


@dataclasses.dataclass(frozen=True)
class TriedModel:
    """A model as it is to be loaded: its plan and the tuned parameters, which choose the programs."""

    prepared: Prepared
    plan: Plan
    plan_file: Path
    tuned: Path | None

    @property
    def limited(self) -> bool:
        """Whether the plan splits long launches."""
        return self.prepared.settings.limit_opencl_kernel_time


@dataclasses.dataclass(frozen=True)
class ChosenKernels:
    """The compiled kernels to load, None for none; `reason` says why those that were given are not loaded."""

    file: Path | None = None
    reason: str = ""

    def told(self, answer: LoadAnswer) -> LoadAnswer:
        """farmrt's answer, which also says why kernels were not loaded that it never saw."""
        if not self.reason:
            return answer
        known = answer.kernels or KernelsAnswer(match="none", reason="")
        return answer.model_copy(update={"kernels": known.model_copy(update={"reason": self.reason})})


@dataclasses.dataclass(frozen=True)
class _Rehearsal:
    load_s: float
    round_s: float
    outputs: Mapping[str, Array]


def choose(opened: OpenUnit, model: TriedModel, kernels: Path | None, put_aside: bool) -> ChosenKernels:
    """The compiled kernels that a model may be loaded with; tries them first where they are new on the unit.

    `put_aside`: a file that fails is renamed. Raises a JobError where the model fails from source too.
    """
    if kernels is None:
        return ChosenKernels()
    try:
        key = _key(opened, model, kernels)
    except JobError:
        if kernels.is_file():
            raise
        return ChosenKernels(reason=f"{kernels.name} was put aside while it was to be loaded")
    fault = tried_kernels.fault(opened.unit, key)
    if fault is None:
        opened.progress.stage(f"{model.prepared.name}: trying compiled kernels")
        fault = _tried(opened, model, kernels, key)
    return ChosenKernels(reason=_refused(kernels, fault, put_aside)) if fault else ChosenKernels(kernels)


def trust(opened: OpenUnit, model: TriedModel, kernels: Path) -> None:
    """Remembers that the unit has run a model with these kernels, and that its outputs were right."""
    tried_kernels.remember(opened.unit, _key(opened, model, kernels), "")


def _key(opened: OpenUnit, model: TriedModel, kernels: Path) -> str:
    """Names a trial: all that decides which binaries the driver is given, and the driver."""
    device, store = opened.probe.opencl.device, opened.connection.store
    files = [store.sha256(path) if path else "" for path in (kernels, model.plan_file, model.tuned)]
    driver = [device.name, device.driver, device.version] if device else []
    return hashlib.sha256("\0".join([*files, opened.opencl_library, *driver]).encode()).hexdigest()


def _tried(opened: OpenUnit, model: TriedModel, kernels: Path, key: str) -> str:
    """What is wrong with the kernels, empty where nothing is; remembered unless the unit ran short of memory."""
    with opened.twin() as plain:
        expected = _rehearsed(plain, model)
    try:
        fault = _fault(opened, model, kernels, expected)
    except JobError as error:
        if not _is_blamed(error, opened):
            raise
        fault = str(error)
        if isinstance(error, ProcessKilledError) or (isinstance(error, DeviceError) and error.kind == "no_memory"):
            return fault
    finally:
        with contextlib.suppress(JobError):
            opened.transport.run(["rm", "-rf", "--", DRIVER_CACHE], CLEAN_DEADLINE_S)
    tried_kernels.remember(opened.unit, key, fault)
    return fault


def _fault(opened: OpenUnit, model: TriedModel, kernels: Path, expected: _Rehearsal) -> str:
    """What is wrong with the outputs of these kernels; raises what ends their farmrt."""
    with opened.twin(ENVIRONMENT, max(LEAST_ROUND_S, SLOWER * expected.round_s)) as trial:
        actual = _rehearsed(trial, model, kernels, max(LEAST_LOAD_S, SLOWER * expected.load_s))
    wrong = [name for name, value in expected.outputs.items() if not _agree(value, actual.outputs[name])]
    return f"output {wrong[0]!r} differs from that of kernels built from source" if wrong else ""


def _rehearsed(
    own: OpenUnit, model: TriedModel, kernels: Path | None = None, deadline_s: float | None = None
) -> _Rehearsal:
    """Loads and runs a model once."""
    limit_s = model.prepared.settings.round_limit
    answer = own.load(
        model.plan_file, model.tuned, kernels, model.limited, deadline_s=deadline_s, round_limit_s=limit_s
    )
    own.write_inputs({tensor.name: random_input(tensor) for tensor in model.prepared.inputs})
    first = own.first_round()
    return _Rehearsal(answer.init_ms / MS_PER_S, first.wall_ns[0] / NS_PER_S, own.read_outputs(model.plan))


def _agree(expected: Array, actual: Array) -> bool:
    finite = np.abs(expected[np.isfinite(expected)])
    most = float(finite.max()) if finite.size else 0.0
    return np.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * most, equal_nan=True)


def _is_blamed(error: JobError, opened: OpenUnit) -> bool:
    """Whether the kernels are to blame: not for a file that farmrt itself refuses, nor for a unit that is gone."""
    if isinstance(error, DeviceError):
        return error.kind != "bad_file"
    return isinstance(error, ProcessEndedError | DeadlineError) and opened.answers()


def _refused(kernels: Path, fault: str, put_aside: bool) -> str:
    """Says why kernels are not loaded; renames their file where that is wanted."""
    reason = f"{kernels.name} failed when it was tried: {fault}"
    if not put_aside:
        return f"{reason}; built from source"
    with contextlib.suppress(FileNotFoundError):  # another unit's job was first
        kernels.replace(refused_file(kernels))
    return f"{reason}; put aside as {refused_file(kernels).name}, built from source"
