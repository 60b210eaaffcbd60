"""A unit that is ready to work: farmrt runs there and has probed it; files go there only when they changed."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from farm.condition import awake
from farm.condition.device_state import read_conditions, read_state
from farm.condition.task_profile import TaskProfile
from farm.condition.throttling import MeasuredSample, RetryPolicy, measure_unthrottled
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.farmrt.answers import LoadAnswer, ProbeAnswer, RunAnswer, TrialAnswer
from farm.farmrt.session import Session
from farm.farmrt.unit_file_store import UnitFileStore
from farm.jobs.fleet import round_limit, tuned_entries
from farm.jobs.fleet.plan_files import given_operators
from farm.jobs.fleet.planner import Planner
from farm.jobs.fleet.progress import UnitProgress
from farm.lease.lease import Lease
from farm.rows.device_state import DeviceState
from farm.rows.row import Throttling
from farm.rows.status import Status
from farm.transport import Transport
from farm.transport.interruption import Interruption
from farm.units import acceptance, facts_cache, health, target_files
from farm.units.acceptance import Trust
from farm.workspace import data_file
from runtime.errors import DeviceError, JobError
from runtime.graph import Array
from runtime.native.build import build_farmrt
from runtime.plan.plan import Plan
from runtime.types import ELEMENT_NAMES

LOG = logging.getLogger("farm.unit")


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


Value = TypeVar("Value")

START_DEADLINE_S = 25.0  # of a farmrt that only has to read a line; no driver is asked yet
PROBE_DEADLINE_S = 120.0
ANSWER_DEADLINE_S = 10.0
LOAD_DEADLINE_S = 900.0
REMOVE_DEADLINE_S = 30.0
COMPILE_S = 480.0  # for drivers that compile when a kernel is launched for the first time
LIMITED_KERNEL_MS = 1.0
MS_PER_S = 1000


class OpenUnit:
    """A unit with a farmrt that runs there; made by `open_unit`."""

    def __init__(self, connection: UnitConnection, session: Session) -> None:
        self.connection = connection
        self.unit, self.transport = connection.unit, connection.transport
        self.progress, self.lease = connection.progress, connection.lease
        self.session = session
        self.round_limit_s = round_limit.LEAST_S
        begin_s = time.monotonic()
        session.command("memory", deadline_s=START_DEADLINE_S)  # changes nothing
        probe = session.probe(connection.opencl, PROBE_DEADLINE_S)
        self.start_s = time.monotonic() - begin_s  # of a farmrt, until it knows its driver
        facts_cache.update(connection.unit, driver=facts_cache.driver_of(probe.model_dump()))
        self.trust = acceptance.trust_of(connection.unit)
        self.claims = probe.opencl.device  # as the driver tells it
        self.probe = _limited(probe, self.trust)
        target_files.store(connection.unit, self.probe)
        self.planner = Planner(self.unit, self.probe, self.device_model)

    @property
    def opencl_library(self) -> str:
        """The OpenCL library in use, empty without one."""
        return self.probe.opencl.library or ""

    @property
    def device_model(self) -> str:
        """The model that devices.yml names, else what the unit says of itself; it names the artifacts."""
        named = self.unit.model != self.unit.name
        return self.unit.model if named else self.probe.cpu.model or self.unit.model

    @contextlib.contextmanager
    def twin(
        self,
        environment: Mapping[str, str] | None = None,
        round_limit_s: float | None = None,
        opencl: str | None = None,
    ) -> Iterator[OpenUnit]:
        """A second farmrt on the same unit, with variables, limit for rounds and OpenCL library of its own if given."""
        limit_s = self.connection.round_limit_s if round_limit_s is None else round_limit_s
        library = self.connection.opencl if opencl is None else opencl
        connection = dataclasses.replace(self.connection, round_limit_s=limit_s, opencl=library)
        with connection.session(environment=environment) as session:
            yield OpenUnit(connection, session)

    def cool(self, measure: Callable[[], Value], rest: RetryPolicy | None = None) -> tuple[Value, Throttling]:
        """Measures, again after a rest where heat slowed the unit down; the value, and whether heat spoiled it."""
        sample = self.measured(measure, rest)
        return sample.value, Throttling(throttled=sample.cause, repeats=sample.repeats)

    def measured(self, measure: Callable[[], Value], rest: RetryPolicy | None = None) -> MeasuredSample[Value]:
        """Measures as `cool` does; with the conditions before and after."""
        rest = rest or self.rest

        def woken() -> Value:
            if self.trust.wakes:
                self.transport.run(["sh", "-c", awake.WAKE], ANSWER_DEADLINE_S)
            return measure()

        return measure_unthrottled(woken, self.conditions, self.sleep, rest, self.progress.stage)

    @property
    def rest(self) -> RetryPolicy:
        """How long it rests where heat slowed it down: as long as it was found to need."""
        return RetryPolicy() if self.trust.rest_s is None else RetryPolicy(rest_s=self.trust.rest_s)

    def sleep(self, seconds: float) -> None:
        """Lets the unit rest; ends early with the job."""
        self.connection.interruption.sleep(seconds)

    def conditions(self) -> DeviceState:
        """Temperature, clocks and thermal status right now."""
        return self.progress.state(read_conditions(self.transport, self.trust.ignored_zones))

    def state(self) -> DeviceState:
        """All that could spoil a measurement, right now."""
        return self.progress.state(read_state(self.transport, self.trust.ignored_zones))

    def note_job(self, status: Status, reason: str) -> None:
        """Remembers how a job ended, for the unit's health."""
        health.HealthRecords().record_job(self.unit, status, reason)

    def answers(self) -> bool:
        """Asks whether the unit still answers, whether farmrt runs or not."""
        try:
            return self.transport.run(["true"], ANSWER_DEADLINE_S).exit_status == 0
        except JobError:
            return False

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
        """Pushes and loads a plan, as `loading` does, and waits until it is loaded."""
        files, limits = (plan_file, tuned, kernels), (deadline_s, round_limit_s)
        return self.loading(*files, limit_kernel_time, lazy, *limits, execution)()

    def loading(
        self,
        plan_file: Path,
        tuned: Path | None = None,
        kernels: Path | None = None,
        limit_kernel_time: bool = False,
        lazy: bool = False,
        deadline_s: float | None = None,
        round_limit_s: float | None = None,
        execution: Execution = DEFAULT,
    ) -> Callable[[], LoadAnswer]:
        """Pushes a plan, with tuned parameters and compiled kernels where they are given, and begins to load it.

        What it returns waits until it is loaded. Tuned launches of kernels that the unit's driver was seen to refuse
        are left out.
        `round_limit_s` is the model's own limit, for where the command line names none; None: by the plan's work.
        """
        files = {"plan": plan_file, "data": data_file(plan_file), "tuned": tuned, "kernels": kernels}
        files |= given_operators(plan_file)
        with TemporaryDirectory() as folder:
            if tuned:
                files["tuned"] = tuned_entries.without_refused(tuned, self.planner.refused, Path(folder))
            remotes = self.connection.store.put([path for path in files.values() if path])
        named_s = self.connection.round_limit_s or round_limit_s
        self.round_limit_s = named_s or round_limit.round_limit_s(plan_file)
        loaded = self.session.loading(
            deadline_s or LOAD_DEADLINE_S,
            **{role: remotes[path] for role, path in files.items() if path},
            soc=self.unit.soc,
            opencl=self.connection.opencl,
            watchdog_ms=math.ceil(MS_PER_S * self.round_limit_s),
            limit_kernel_ms=LIMITED_KERNEL_MS if limit_kernel_time else None,
            lazy=lazy or None,
            **_given(self.trust.load_words, execution.words),
        )

        def answered() -> LoadAnswer:
            try:
                return loaded()
            except DeviceError as error:
                raise DeviceError(_with_own_paths(str(error), remotes), error.kind) from None

        return answered

    def first_round(self, profile: bool = False) -> RunAnswer:
        """Runs the loaded plan once, with time for a driver that compiles only then."""
        return self.running_first_round(profile)()

    def running_first_round(self, profile: bool = False) -> Callable[[], RunAnswer]:
        """Begins that round, and returns what waits for it."""
        answered = self.session.running(1, self.round_limit_s + COMPILE_S, profile=profile)

        def ran() -> RunAnswer:
            with round_limit.named(self.round_limit_s):
                return answered()

        return ran

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

    def write(self, command: str, **values: str) -> None:
        """Lets farmrt write a file on the unit; the store gives way to it where there is no room."""
        self.connection.store.with_room(lambda: self.session.command(command, deadline_s=None, **values))

    def save_kernels(self, local: Path, trials: bool = False) -> None:
        """Brings the compiled programs of the loaded plan here, with `trials` those of its trials too."""
        with self.removing([local.name]):
            self.write("save_kernels", file=local.name, trials=str(int(trials)))
            self.transport.pull(local.name, local)

    @contextlib.contextmanager
    def removing(self, files: Sequence[str]) -> Iterator[None]:
        """Removes files from the unit's folder at the end, also where the job is interrupted or its link breaks."""
        try:
            yield
        finally:
            with contextlib.suppress(JobError):
                self.transport.run(["rm", "-f", "--", *files], REMOVE_DEADLINE_S)

    def read_outputs(self, plan: Plan) -> dict[str, Array]:
        """All outputs of the loaded plan after a run."""
        return self.read_tensors({each.name: (ELEMENT_NAMES[each.element_type], each.shape) for each in plan.outputs})

    def read_tensors(self, described: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, Array]:
        """Outputs of what is loaded, by name; each has an element type and a shape. Leaves no file on the unit."""
        tensors, files = {}, [f"output{index}.bin" for index in range(len(described))]
        with TemporaryDirectory() as folder, self.removing(files):
            for file, (name, (element_type, shape)) in zip(files, described.items(), strict=True):
                self.write("output", name=name, file=file)
                self.transport.pull(file, Path(folder, file))
                tensors[name] = np.fromfile(Path(folder, file), element_type).reshape(shape)
        return tensors


def _limited(probe: ProbeAnswer, trust: Trust) -> ProbeAnswer:
    """The answer with the limits that the unit was found to have, in place of those that its driver claims."""
    if probe.opencl.device is None or not trust.device_limits:
        return probe
    device = probe.opencl.device.model_copy(update=trust.device_limits)
    return probe.model_copy(update={"opencl": probe.opencl.model_copy(update={"device": device})})


def _given(*words: Mapping[str, object]) -> dict[str, object]:
    """The words that have a value; a later one goes before an earlier one of its name."""
    return {name: value for each in words for name, value in each.items() if value is not None}


def _with_own_paths(text: str, remotes: Mapping[Path, str]) -> str:
    """A unit's words with the paths of files here, which people know, in place of those there."""
    for path, remote in remotes.items():
        text = text.replace(remote, str(path))
    return text
