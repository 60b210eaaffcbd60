"""How farmrt executes a plan: threads, the CPUs that they run on, and hints to the GPU's driver.

In a deployment file's models, and in the settings of a nightly.yml:

    num_threads: 4                  # that share CPU operators; default: one for each CPU of the affinity
    cpu_affinity_policy: big_only   # none, big_only, little_only, or a list of CPUs: 4-7 or 0,2
    gpu_perf_hint: high             # how high the GPU shall clock: default, low, normal, high
    gpu_priority_hint: low          # whose work goes first on the GPU: likewise
    opencl_queue_window_size: 16    # launches after which the GPU's queue is flushed; 0, default: as the GPU needs it
    opencl_record_launches: 1       # launches are recorded once, where the driver can; 0: never; default: where it pays

MACE's numbers mean what they mean there: the affinity 0, 1, 2 is none, big_only, little_only, and a hint 0, 1, 2, 3 is
default, low, normal, high. So a single CPU is written as a list: 4-4.

A hint works where the GPU's driver takes one: Qualcomm's by cl_qcom_perf_hint and cl_qcom_priority_hint, others by
cl_khr_throttle_hints and cl_khr_priority_hints. A row says what became of it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any, Literal, get_args

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field

from farm.config.yaml_source import YamlSection
from runtime.errors import ConfigError

Hint = Literal["default", "low", "normal", "high"]

MAX_THREADS = 1024
MAX_QUEUE_WINDOW = 1_000_000  # farmrt's MAX_FLUSH_EVERY
POLICIES = {"none": "none", "big_only": "big", "little_only": "little"}  # ours -> farmrt's word
POLICY_NUMBERS = dict(enumerate(POLICIES))
HINTS: tuple[Hint, ...] = get_args(Hint)
_CPU_LIST = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")


def check_affinity(text: str) -> str:
    """A policy's word, also of its number in MACE, or a list of CPUs; raises ValueError for anything else."""
    if text.isdecimal():
        if int(text) in POLICY_NUMBERS:
            return POLICY_NUMBERS[int(text)]
        numbers = ", ".join(f"{number} {policy}" for number, policy in POLICY_NUMBERS.items())
        raise ValueError(f"{text} is none of MACE's policies ({numbers}); write {text}-{text} for CPU {text}")
    if text not in POLICIES and not _CPU_LIST.fullmatch(text):
        raise ValueError(f"{text!r} is no affinity; write {', '.join(POLICIES)}, or a list of CPUs such as 4-7 or 0,2")
    return text


def hint_word(value: Any) -> Any:
    """The word of a hint that is given by its number in MACE; anything else unchanged."""
    text = str(value)
    return HINTS[int(text)] if text.isdecimal() and int(text) < len(HINTS) else value


def _as_text(value: Any) -> Any:
    """Accepts `[0, 2]` for `0,2`, and MACE's number as a number."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) if len(value) != 1 else f"{value[0]}-{value[0]}"
    return str(value) if isinstance(value, int) else value


Threads = Annotated[int, Field(ge=1, le=MAX_THREADS)]
Affinity = Annotated[str, BeforeValidator(_as_text), AfterValidator(check_affinity)]
GpuHint = Annotated[Hint, BeforeValidator(hint_word)]
Flag = Annotated[int, Field(ge=0, le=1)]
QueueWindow = Annotated[int, Field(ge=0, le=MAX_QUEUE_WINDOW)]


@dataclasses.dataclass(frozen=True)
class Execution:
    """How farmrt executes a plan; what is None is left to the deployment file, and there to farmrt."""

    num_threads: Threads | None = None
    cpu_affinity_policy: Affinity | None = None
    gpu_perf_hint: GpuHint | None = None
    gpu_priority_hint: GpuHint | None = None
    opencl_queue_window_size: QueueWindow | None = None
    opencl_record_launches: Flag | None = None

    @property
    def given(self) -> dict[str, int | str]:
        """Those that are not left to others, by name."""
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {name: value for name, value in values if value is not None}

    @property
    def words(self) -> dict[str, int | str | None]:
        """The values of farmrt's `load`; what is None is not sent, so that an older farmrt need not know it."""
        policy = self.cpu_affinity_policy
        return {
            "threads": self.num_threads,
            "affinity": None if policy is None else POLICIES.get(policy, policy),
            "perf_hint": self.gpu_perf_hint,
            "priority_hint": self.gpu_priority_hint,
            "flush_every": self.opencl_queue_window_size or None,
            "record": self.opencl_record_launches,
        }

    @property
    def hints(self) -> str:
        """The hints that change how fast a GPU works, as text; empty without any."""
        asked = {"perf": self.gpu_perf_hint, "priority": self.gpu_priority_hint}
        return ",".join(f"{name}={hint}" for name, hint in asked.items() if hint not in (None, "default"))

    def over(self, other: Execution) -> Execution:
        """These values, and the other's where there are none."""
        return dataclasses.replace(other, **self.given)  # type: ignore[arg-type]  # of the same names and types


DEFAULT = Execution()
_CHECK = pydantic.TypeAdapter(Execution)


def checked(**values: int | str | None) -> Execution:
    """Makes it of values that a script gave; raises ConfigError for a bad one."""
    try:
        return _CHECK.validate_python(values)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{first['loc'][0]}: {first['msg'].removeprefix('Value error, ')}") from None


class ExecutionKeys(YamlSection):
    """The keys of a section that says how plans are executed."""

    num_threads: Threads | None = None
    cpu_affinity_policy: Affinity | None = None
    gpu_perf_hint: GpuHint | None = None
    gpu_priority_hint: GpuHint | None = None
    opencl_queue_window_size: QueueWindow | None = None
    opencl_record_launches: Flag | None = None

    @property
    def execution(self) -> Execution:
        """The values of these keys."""
        return Execution(**{name: getattr(self, name) for name in ExecutionKeys.model_fields})
