"""farmrt's answers as types (docs/farmrt.md).

Each is checked once, where it comes in, so that nothing behind it meets a member that is missing, of another type,
endless, or no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from farm.rows.execution import HintOutcome, HintUse, LaunchLimit
from farm.rows.run import KernelsUse, NoFile, TunedUse
from runtime.errors import DeviceError
from runtime.target import Target, target_from_probe

MAX_TEXT = 4096
MAX_ITEMS = 1_000_000
MAX_THREADS = 1024

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Durations = Annotated[list[Duration], Field(min_length=1, max_length=MAX_ITEMS)]


class Answer(BaseModel):
    """An answer of farmrt: members that the farm relies on; others may be there."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class DeviceAnswer(Answer):
    """An OpenCL device."""

    name: Text
    vendor: Text = ""
    type: Text = ""  # cpu, gpu, accelerator
    driver: Text
    version: Text
    compute_units: Count
    max_work_group_size: Count
    max_work_item_sizes: Annotated[list[Count], Field(min_length=3, max_length=16)]
    local_memory_bytes: Count
    max_allocation_bytes: Count
    images: bool
    image2d_max_width: Count
    image2d_max_height: Count
    fp16: bool


class OpenClAnswer(Answer):
    """The OpenCL library that farmrt found and its device, or why there is none."""

    library: Text | None = None
    error: Text | None = None
    platform_version: Text | None = None
    device: DeviceAnswer | None = None

    @model_validator(mode="after")
    def _has_platform(self) -> OpenClAnswer:
        if self.device and self.platform_version is None:
            raise ValueError("platform_version is missing")
        return self


class CpuAnswer(Answer):
    """The processor."""

    model: Text | None = None
    features: list[Text] = []
    cores: Count = 0
    max_khz: list[Count] = []


class ProbeAnswer(Answer):
    """What the unit is."""

    abi: Text
    cpu: CpuAnswer
    opencl: OpenClAnswer

    @property
    def driver_key(self) -> str:
        """Names the OpenCL driver: another one after an update of the system."""
        device = self.opencl.device
        return " | ".join((device.name, device.driver, device.version)) if device else ""

    def target(self, soc: str, **settings: Any) -> Target:
        """What to lower models to on this unit; `settings` override single fields of the target."""
        return target_from_probe(self.model_dump(), soc, **settings)


class TunedAnswer(Answer):
    """How the tuned parameters were used."""

    match: Text
    entries: Count = 0
    used: Count = 0
    reason: Text

    @property
    def use(self) -> TunedUse:
        """The same as a part of a row."""
        return TunedUse(match=self.match, entries=self.entries, used=self.used, reason=self.reason)


class KernelsAnswer(Answer):
    """How the compiled kernels were used."""

    match: Text
    loaded: Count = 0
    built: Count = 0
    build_ms: Duration = 0.0
    reason: Text

    @property
    def use(self) -> KernelsUse:
        """The same as a part of a row."""
        return KernelsUse(
            match=self.match, loaded=self.loaded, built=self.built, build_ms=self.build_ms, reason=self.reason
        )


class WorkersAnswer(Answer):
    """The threads of CPU operators, and the CPUs that were chosen for them."""

    threads: Count
    isa: Text = ""
    cores: Text = ""


class HintAnswer(Answer):
    """What became of a hint to the driver."""

    asked: Literal["default", "low", "normal", "high"]
    outcome: HintOutcome
    extension: Text = ""

    @property
    def use(self) -> HintUse:
        """The same as a part of a row."""
        return HintUse(asked=self.asked, outcome=self.outcome, extension=self.extension)


class LimitAnswer(Answer):
    """How launches were split."""

    launches: Count
    split_steps: Count

    @property
    def use(self) -> LaunchLimit:
        """The same as a part of a row."""
        return LaunchLimit(launches=self.launches, split_steps=self.split_steps)


class MemoryAnswer(Answer):
    """What the process takes, and its number in /proc."""

    process: Count
    peak_resident_bytes: Count
    since_load: bool


class LoadAnswer(Answer):
    """What loading a plan took; `memory` is in bytes, by purpose."""

    init_ms: Duration
    memory: Annotated[dict[Text, Count], Field(max_length=100)] = {}
    tuned: TunedAnswer | None = None
    kernels: KernelsAnswer | None = None
    cpu: WorkersAnswer | None = None
    perf_hint: HintAnswer | None = None
    priority_hint: HintAnswer | None = None
    smaller_groups: Count = 0
    refused_kernels: list[Text] = []  # by farm: which variants the plan does without, since they do not work there

    @property
    def tuned_use(self) -> TunedUse | NoFile:
        """How the tuned parameters were used, where there were any."""
        return self.tuned.use if self.tuned else NoFile()

    @property
    def kernels_use(self) -> KernelsUse | NoFile:
        """How the compiled kernels were used, where there were any."""
        return self.kernels.use if self.kernels else NoFile()


class StepAnswer(Answer):
    """Times of one step of the plan: one for each round, and of the first run of all."""

    start_ns: Duration
    first_ns: Duration
    ns: Durations


class ThreadsAnswer(Answer):
    """How long all threads of farmrt together ran, and how long they were ready to run and had no core."""

    running_ns: Count
    waiting_ns: Count


class RunAnswer(Answer):
    """Times of rounds; `first_ms` is that of the very first since the plan was loaded, None for later ones.

    `threads` are of all rounds and those of the warm-up; None where the unit does not tell. `by_host`: steps were timed
    by the host's clock, since that of events stands, or the queue that profiles hangs (`profiling_hangs`).
    """

    first_ms: Duration | None = None
    warmup_ns: Annotated[list[Duration], Field(max_length=MAX_ITEMS)] = []
    wall_ns: Durations
    threads: ThreadsAnswer | None = None
    steps: Annotated[list[StepAnswer], Field(max_length=MAX_ITEMS)] = []
    worker_cores: Annotated[list[Text], Field(max_length=MAX_THREADS)] = []
    limit: LimitAnswer | None = None
    by_host: bool = False
    profiling_hangs: bool = False

    @property
    def timed_by_host(self) -> str:
        """Why steps were timed by the host's clock; empty where they were not."""
        return ("its queue that profiles hangs" if self.profiling_hangs else "its events tell no times") * self.by_host

    @property
    def very_first_ms(self) -> float:
        """Time of the first round since the plan was loaded; DeviceError where farmrt holds it for a later one."""
        if self.first_ms is None:
            raise DeviceError("run: farmrt's answer is not what it should be: first_ms: missing", "bad_answer")
        return self.first_ms


def waited_share(answers: Iterable[RunAnswer]) -> float | None:
    """The share of their time that the rounds' threads waited for a core, 0 to 1; None where the unit does not tell.

    Of the time that threads ran or were ready to, but at least of the rounds' own: a CPU that only waits for a GPU is
    hardly ever ready, so that its few waits say little.
    """
    told = [(answer.threads, sum(answer.warmup_ns) + sum(answer.wall_ns)) for answer in answers]
    waits = [(threads.waiting_ns, threads.running_ns, wall_ns) for threads, wall_ns in told if threads]
    needed_ns = sum(max(waiting + running, wall_ns) for waiting, running, wall_ns in waits)
    return sum(waiting for waiting, _, _ in waits) / needed_ns if needed_ns else None


class TrialAnswer(Answer):
    """Times of one launch, and how far its output is from what was expected.

    `own_ns` are times of the step's own launch, in turns with those of `ns`; `steady` says how the ramp ended.
    `hidden_ms` of the build were over before the trial began; `beside_build` and `building`: whether another program
    was being built when the repetitions began, and when the trial ended.
    """

    build_ms: Duration
    hidden_ms: Duration = 0.0
    beside_build: bool = False
    building: bool = False
    ns: Durations
    own_ns: Durations = []
    steady: bool | None = None
    max_abs_error: float | None = None
    max_abs_expected: float | None = None
    nan_count: Count = 0
    max_work_group_size: Count
    preferred_multiple: Count


class ClockAnswer(Answer):
    """What events told of launches, beside the host's clock."""

    events: Annotated[int, Field(ge=1)]
    reversed: Count
    empty: Count
    backwards: Count
    resolution_ns: Count
    events_ns: Count
    wall_ns: Annotated[int, Field(ge=1)]


class WindowAnswer(Answer):
    """The time of a launch where so many are enqueued before a flush; 0: all."""

    every: Count
    ns: Count


class LaunchesAnswer(Answer):
    """What launches cost, and whether they begin without a flush."""

    launch_ns: Count
    recorded_ns: Count = 0  # a launch in a recording; 0: the driver records none
    needs_flush: bool
    windows: Annotated[list[WindowAnswer], Field(min_length=1, max_length=100)]


class ZeroCopyAnswer(Answer):
    """What became of a buffer over the host's memory."""

    outcome: Text
    code_name: Text = ""


class LimitsAnswer(Answer):
    """The largest at which a device really works."""

    tried_allocation_bytes: Count
    allocation_bytes: Count
    image_width: Count
    image_height: Count
    kernel_limit: Count
    group_items: Annotated[list[Count], Field(min_length=3, max_length=3)]


ANSWERS: Mapping[str, type[Answer]] = {
    "probe": ProbeAnswer,
    "load": LoadAnswer,
    "run": RunAnswer,
    "trial": TrialAnswer,
    "memory": MemoryAnswer,
}


def parsed(command: str, answer: Mapping[str, Any]) -> Answer:
    """The answer to a command as its type; a ValueError says in a few words of ours what is wrong with it."""
    try:
        return ANSWERS.get(command, Answer).model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise ValueError(f"{where[:100]}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
