"""A unit that is ready to work: connected, farmrt on it and running, probed; plans go there only when they changed."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from farm import atomic_file
from farm.condition import governor, task_profile
from farm.condition.device_state import read_conditions, read_state
from farm.condition.readiness import BYTES_PER_MB, wait_until_ready
from farm.condition.task_profile import TaskProfile
from farm.condition.throttling import MeasuredSample, RetryPolicy, measure_unthrottled
from farm.config.deployment import Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.farmrt.answers import DeviceAnswer, LoadAnswer, OpenClAnswer, ProbeAnswer, RunAnswer, TrialAnswer
from farm.farmrt.session import Session
from farm.farmrt.unit_file_store import UnitFileStore
from farm.jobs.choices.in_force import DEFAULT_PLAN, PlannedChoice, choice_of_files
from farm.jobs.choices.kept_way import KeptWay
from farm.jobs.fleet import round_limit
from farm.jobs.fleet.health_check import check_unit
from farm.jobs.fleet.opencl_library import check_opencl, find_opencl
from farm.jobs.fleet.progress import UnitProgress
from farm.jobs.models import cpu_choice, plans
from farm.jobs.models.cpu_choice import CpuChoice
from farm.jobs.models.prepare import Prepared
from farm.lease import lease
from farm.lease.lease import Lease
from farm.rows.device_state import DeviceState
from farm.rows.row import Throttling
from farm.rows.status import Status
from farm.transport import Transport, connect
from farm.transport.interruption import Interruption
from farm.units import facts_cache, health, target_files
from farm.workspace import Workspace, data_file, operators_file
from runtime.custom.c_library import abi_key, c_kernels, operators_library
from runtime.errors import DeviceError, JobError, UnsupportedError
from runtime.lowering.choice import GraphChoice
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.plan_data import PlanData, pieces
from runtime.target import Target
from runtime.types import ELEMENT_NAMES

Array = npt.NDArray[Any]
Value = TypeVar("Value")

LOG = logging.getLogger("farm.unit")

START_DEADLINE_S = 25.0  # of a farmrt that only has to read a line; no driver is asked yet
PROBE_DEADLINE_S = 120.0
ANSWER_DEADLINE_S = 10.0
LOAD_DEADLINE_S = 900.0
COMPILE_S = 480.0  # for drivers that compile when a kernel is launched for the first time
LIMITED_KERNEL_MS = 1.0
MS_PER_S = 1000


@dataclasses.dataclass(frozen=True)
class UnitConnection:
    """A unit whose lease is held, and all that it takes to start a farmrt there.

    Attributes:
        opencl: the OpenCL library for farmrt; None leaves the search to it.
        conditions: what was done to the unit before the job, for a row's settings.
        interruption: ends what waits for the unit.
        round_limit_s: how long a round may go without progress before the unit counts as hanging; None: what the
            deployment file says, else by the work of the plan.
    """

    unit: Unit
    transport: Transport
    lease: Lease
    store: UnitFileStore
    progress: UnitProgress
    opencl: str | None
    task_profile: TaskProfile
    conditions: Mapping[str, Any]
    interruption: Interruption
    round_limit_s: float | None = None

    def session(self, program: Path | None = None, environment: Mapping[str, str] | None = None) -> Session:
        """Starts another farmrt on the unit: this farm's, or the one in a file."""
        farmrt = program or build_farmrt(self.unit.abi, compiled=self._say_compiled)
        logged = {"FARMRT_LOG": "debug"} if LOG.isEnabledFor(logging.DEBUG) else {}
        remote = self.store.put([farmrt])[farmrt]
        if not program:
            self.transport.hash_with(remote)
        return Session(self.transport, remote, {**logged, **(environment or {})}, wrap=self.task_profile.wrap)

    def _say_compiled(self, done: int, units: int) -> None:
        self.progress.stage(f"farmrt for {self.unit.abi}: compiled {done} of {units} files, once")


class OpenUnit:
    """A unit with a farmrt that runs there; made by `open_unit`."""

    def __init__(self, connection: UnitConnection, session: Session) -> None:
        self.connection = connection
        self.unit, self.transport = connection.unit, connection.transport
        self.progress, self.lease = connection.progress, connection.lease
        self.session = session
        self.round_limit_s = round_limit.LEAST_S
        session.command("memory", deadline_s=START_DEADLINE_S)  # changes nothing
        self.probe = session.probe(connection.opencl, PROBE_DEADLINE_S)
        facts_cache.update(connection.unit, driver=facts_cache.driver_of(self.probe.model_dump()))
        target_files.store(connection.unit, self.probe)

    @property
    def opencl_library(self) -> str:
        """The OpenCL library in use, empty without one."""
        return self.probe.opencl.library or ""

    @property
    def device_model(self) -> str:
        """The model that devices.yml names, else what the unit says of itself; it names the artifacts."""
        named = self.unit.model != self.unit.name
        return self.unit.model if named else self.probe.cpu.model or self.unit.model

    def artifact_files(self, library: str) -> tuple[Path, Path]:
        """Where a library's tuned parameters and compiled kernels for this unit lie, or would."""
        workspace, names = Workspace(library), (self.unit.abi, self.device_model, self.unit.soc)
        return workspace.tuned_file(*names), workspace.kernels_file(*names)

    def selection_file(self, library: str) -> Path:
        """Where a library's kept choices for this unit lie, or would."""
        return Workspace(library).selection_file(self.unit.abi, self.device_model, self.unit.soc)

    def choice_in_force(
        self, prepared: Prepared, runtime: Runtime, target: Target, memory: str | None = None
    ) -> PlannedChoice:
        """The kept choice that a model's plan is made by here; none where the user wants a memory type throughout."""
        if memory:
            return DEFAULT_PLAN
        files = [self.selection_file(prepared.deployment.library_name)]
        return choice_of_files(files, prepared, runtime, target)

    @contextlib.contextmanager
    def twin(
        self, environment: Mapping[str, str] | None = None, round_limit_s: float | None = None
    ) -> Iterator[OpenUnit]:
        """A second farmrt on the same unit, with variables and a limit for rounds of its own where they are given."""
        limit_s = self.connection.round_limit_s if round_limit_s is None else round_limit_s
        connection = dataclasses.replace(self.connection, round_limit_s=limit_s)
        with connection.session(environment=environment) as session:
            yield OpenUnit(connection, session)

    def cool(self, measure: Callable[[], Value], rest: RetryPolicy | None = None) -> tuple[Value, Throttling]:
        """Measures, again after a rest where heat slowed the unit down; the value, and whether heat spoiled it."""
        sample = self.measured(measure, rest)
        return sample.value, Throttling(throttled=sample.cause, repeats=sample.repeats)

    def measured(self, measure: Callable[[], Value], rest: RetryPolicy | None = None) -> MeasuredSample[Value]:
        """Measures as `cool` does; with the conditions before and after."""
        return measure_unthrottled(measure, self.conditions, self.sleep, rest, self.progress.stage)

    def sleep(self, seconds: float) -> None:
        """Lets the unit rest; ends early with the job."""
        self.connection.interruption.sleep(seconds)

    def conditions(self) -> DeviceState:
        """Temperature, clocks and thermal status right now."""
        return self.progress.state(read_conditions(self.transport))

    def note_job(self, status: Status, reason: str) -> None:
        """Remembers how a job ended, for the unit's health."""
        health.HealthRecords().record_job(self.unit, status, reason)

    def answers(self) -> bool:
        """Asks whether the unit still answers, whether farmrt runs or not."""
        try:
            return self.transport.run(["true"], ANSWER_DEADLINE_S).exit_status == 0
        except JobError:
            return False

    def target(self, prepared: Prepared, runtime: Runtime, memory: str | None = None) -> Target:
        """What to lower a model to on this unit; see `choose_target`."""
        if runtime != "cpu":
            check_opencl(self.unit, self.opencl_library)
        return choose_target(self.unit, self.probe, prepared, runtime, memory)

    def cpu_choice_file(self, prepared: Prepared) -> Path:
        """Where tuning keeps how a model is executed on this unit's CPU."""
        workspace = Workspace(prepared.deployment.library_name)
        return workspace.cpu_choice_file(prepared.name, self.unit.abi, self.device_model, self.unit.soc)

    def cpu_choice(self, prepared: Prepared, runtime: Runtime) -> CpuChoice | None:
        """How tuning executes a model on this unit's CPU; None where it was not tuned, or is for another runtime."""
        if runtime != "cpu":
            return None
        return cpu_choice.read(self.cpu_choice_file(prepared), cpu_choice.validity(prepared.graph, self.probe.cpu))

    def kept_way(self, prepared: Prepared, runtime: Runtime, target: Target, memory: str | None = None) -> KeptWay:
        """How tuning has a model lowered and executed on this unit."""
        planned = self.choice_in_force(prepared, runtime, target, memory)
        return KeptWay(planned, self.cpu_choice(prepared, runtime))

    def plan(
        self,
        prepared: Prepared,
        runtime: Runtime,
        target: Target,
        keep_layers: bool = False,
        choice: GraphChoice | None = None,
        kind: str = "",
        cpu: CpuChoice | None = None,
    ) -> tuple[Plan, Path]:
        """Lowers a model, by a choice or as tuning chose for the CPU where one is given.

        Returns the plan and the file below the build folder that is its own, or that of another `kind`.
        """
        plan = plans.lowered(prepared, target, KeptWay(PlannedChoice(choice), cpu).options(prepared, keep_layers))
        kind = kind or (f"{runtime}.layers" if keep_layers else runtime)
        workspace = Workspace(prepared.deployment.library_name)
        path = workspace.plan_file(prepared.name, self.unit.abi, self.unit.soc, kind)
        return plan, plans.own_file(path, target, self.unit.name)

    def load(
        self,
        plan_file: Path,
        tuned: Path | None = None,
        kernels: Path | None = None,
        limit_kernel_time: bool = False,
        lazy: bool = False,
        deadline_s: float | None = None,
        round_limit_s: float | None = None,
        execution: Execution = DEFAULT,
    ) -> LoadAnswer:
        """Pushes and loads a plan, with tuned parameters and compiled kernels where they are given.

        `round_limit_s` is the model's own limit, for where the command line names none; None: by the plan's work.
        """
        files = {"plan": plan_file, "data": data_file(plan_file), "tuned": tuned, "kernels": kernels}
        files |= given_operators(plan_file)
        remotes = self.connection.store.put([path for path in files.values() if path])
        named_s = self.connection.round_limit_s or round_limit_s
        self.round_limit_s = named_s or round_limit.round_limit_s(plan_file)
        try:
            return self.session.load(
                deadline_s or LOAD_DEADLINE_S,
                **{role: remotes[path] for role, path in files.items() if path},
                soc=self.unit.soc,
                opencl=self.connection.opencl,
                watchdog_ms=math.ceil(MS_PER_S * self.round_limit_s),
                limit_kernel_ms=LIMITED_KERNEL_MS if limit_kernel_time else None,
                lazy=lazy or None,
                **execution.words,
            )
        except DeviceError as error:
            raise DeviceError(_with_own_paths(str(error), remotes), error.kind) from None

    def first_round(self, profile: bool = False) -> RunAnswer:
        """Runs the loaded plan once, with time for a driver that compiles only then."""
        with round_limit.named(self.round_limit_s):
            return self.session.run(1, self.round_limit_s + COMPILE_S, profile=profile)

    def limited_trial(self, **words: Any) -> TrialAnswer:
        """Times one step of the loaded plan, whose program may have to be compiled, in the time of a round."""
        with round_limit.named(self.round_limit_s):
            return self.session.trial(self.round_limit_s, **words)

    def hashes(self, files: Mapping[str, Path]) -> dict[str, str]:
        """SHA-256 of farmrt and of files that were loaded, by their role."""
        store = self.connection.store
        return {role: store.sha256(path) for role, path in {"farmrt": build_farmrt(self.unit.abi), **files}.items()}

    def write_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Brings the inputs of the loaded plan to the unit."""
        with TemporaryDirectory() as folder:
            files = {name: Path(folder, f"input{index}.bin") for index, name in enumerate(inputs)}
            for name, path in files.items():
                path.write_bytes(inputs[name].tobytes())
            remotes = self.connection.store.put(files.values())
            for name, path in files.items():
                self.session.command("input", name=name, file=remotes[path])

    def read_outputs(self, plan: Plan) -> dict[str, Array]:
        """All outputs of the loaded plan after a run."""
        outputs = {}
        with TemporaryDirectory() as folder:
            for index, tensor in enumerate(plan.outputs):
                local, remote = Path(folder, f"output{index}.bin"), f"output{index}.bin"
                self.session.command("output", name=tensor.name, file=remote)
                self.transport.pull(remote, local)
                outputs[tensor.name] = np.fromfile(local, ELEMENT_NAMES[tensor.element_type]).reshape(tensor.shape)
        return outputs


def given_operators(plan_file: Path) -> dict[str, Path]:
    """The library of a plan's custom CPU operators, under the word by which it is loaded; empty without one."""
    library = operators_file(plan_file)
    return {"operators": library} if library.is_file() else {}


def _with_own_paths(text: str, remotes: Mapping[Path, str]) -> str:
    """A unit's words with the paths of files here, which people know, in place of those there."""
    for path, remote in remotes.items():
        text = text.replace(remote, str(path))
    return text


def choose_target(
    unit: Unit, probe: ProbeAnswer, prepared: Prepared, runtime: Runtime, memory: str | None = None
) -> Target:
    """What to lower a model to on a unit that `farmrt probe` describes.

    Raises:
        UnsupportedError: the unit cannot run it so; the text says what could be changed.
    """
    if runtime == "cpu":
        return probe.target(unit.soc, memory="cpu", precision=prepared.precision(runtime))
    device = _usable_device(unit, probe.opencl, memory)
    precisions = prepared.precisions(has_half=device.fp16)
    if not precisions:
        reason = f"{device.name} has no fp16 arithmetic; set data_type: fp16_fp32 or fp32_fp32"
        raise UnsupportedError(f"unit {unit.name!r}: {reason}")
    settings = {"memory": memory} if memory else {}
    allow_cpu = "cpu" in prepared.settings.runtimes
    return probe.target(unit.soc, precision=precisions[0], allow_cpu=allow_cpu, **settings)


def _usable_device(unit: Unit, opencl: OpenClAnswer, memory: str | None) -> DeviceAnswer:
    device, where = opencl.device, f"unit {unit.name!r}"
    if device is None:
        reason = opencl.error or "none was found"
        raise UnsupportedError(
            f"{where} has no OpenCL driver ({reason}); `farm doctor --device {unit.name}` says what to do, "
            "or set runtime: cpu"
        )
    if memory == "image" and not device.images:
        raise UnsupportedError(f"{where}: {device.name} has no images; use --memory buffer")
    return device


@contextlib.contextmanager
def open_unit(
    unit: Unit,
    opencl: str | None = None,
    progress: UnitProgress | None = None,
    purpose: str = "farm",
    wait_s: float = 0.0,
    interruption: Interruption | None = None,
    round_limit_s: float | None = None,
) -> Iterator[OpenUnit]:
    """Connects to a unit, takes its lease, brings farmrt there and starts it.

    Args:
        unit: the unit.
        opencl: a library, `intel`, `pypi`, `system`, or None for the best.
        progress: reports what happens meanwhile.
        purpose: what the lease is for, shown to others who want the unit.
        wait_s: how long to wait for a unit that somebody else holds.
        interruption: ends, from another thread, what waits for the unit.
        round_limit_s: how long a round of a model may go without progress; None: by deployment file or work.
    """
    interruption = interruption or Interruption()
    library = find_opencl(unit, opencl)
    progress = progress or UnitProgress(unit.name)
    say = progress.stage
    say("connecting")
    health.HealthRecords().admit(unit, lambda: check_unit(unit))
    with (
        contextlib.closing(_reached(unit, progress, interruption)) as transport,
        lease.acquire(
            unit, transport, purpose, connect=lambda: connect(unit), wait_s=wait_s, say=progress.waiting
        ) as held,
        _made_ready(unit, transport, held, progress, interruption) as conditions,
        UnitFileStore(transport, unit.limits.store_mb * BYTES_PER_MB, held.check) as store,
    ):
        say(f"farmrt for {unit.abi}")
        profile = task_profile.find_profile(transport)
        conditions = conditions | ({"task_profile": profile.name} if profile.name else {})
        connection = UnitConnection(
            unit, transport, held, store, progress, library, profile, conditions, interruption, round_limit_s
        )
        with connection.session() as session:
            yield OpenUnit(connection, session)


def _reached(unit: Unit, progress: UnitProgress, interruption: Interruption) -> Transport:
    transport = connect(unit, interruption=interruption)
    progress.reached = True
    return transport


@contextlib.contextmanager
def _made_ready(
    unit: Unit, transport: Transport, held: Lease, progress: UnitProgress, interruption: Interruption
) -> Iterator[dict[str, Any]]:
    """Waits until the unit is fit for a job, and lets it run at its highest clocks meanwhile; what was done."""
    fit = wait_until_ready(
        unit.name,
        lambda: progress.state(read_state(transport)),
        unit.limits,
        time.monotonic,
        interruption.sleep,
        progress.stage,
    )
    waited = {"waited_s": round(fit.waited_s, 1), "waited_for": fit.waited_for} if fit.waited_for else {}
    with governor.performance_governors(transport, held.check) as governors:
        yield waited | ({"governors": governors} if governors else {})


def write_plan(plan: Plan, plan_file: Path) -> None:
    """Writes a plan, its weights, and the library of the custom CPU operators that it needs."""
    _write_operators(plan, operators_file(plan_file))
    write_changed(data_file(plan_file), plan.data)
    write_changed(plan_file, encode_plan(plan))


def _write_operators(plan: Plan, library_file: Path) -> None:
    kernels = c_kernels(plan)
    if kernels:
        write_changed(library_file, operators_library(kernels, abi_key(plan.target.abi)).read_bytes())
    else:
        library_file.unlink(missing_ok=True)


def write_changed(path: Path, content: PlanData) -> None:
    """Writes a file, unless it holds the same already."""
    if not _holds(path, content):
        with atomic_file.replacing(path) as file:
            for piece in pieces(content):
                file.write(piece)


def _holds(path: Path, content: PlanData) -> bool:
    if not path.is_file() or path.stat().st_size != len(content):
        return False
    with path.open("rb") as file:
        return all(file.read(len(piece)) == piece for piece in pieces(content))


def rounds_deadline_s(rounds: int, round_ms: float) -> float:
    """A generous deadline for rounds of a known duration."""
    return 60.0 + math.ceil(rounds * round_ms / 1000 * 5)
