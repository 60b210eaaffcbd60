"""What farmrt may answer to each command (docs/farmrt.md): checked once, where it comes in, so that nothing behind it
meets a member that is missing, of another type, endless, or no number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

MAX_TEXT = 4096
MAX_ITEMS = 1_000_000

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Durations = Annotated[list[Duration], Field(min_length=1, max_length=MAX_ITEMS)]


class _Answer(BaseModel):
    """Members that the farm relies on; others may be there."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Device(_Answer):
    name: Text
    vendor: Text = ""
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


class _OpenCl(_Answer):
    library: Text | None = None
    error: Text | None = None
    platform_version: Text | None = None
    device: _Device | None = None

    @model_validator(mode="after")
    def _has_platform(self) -> _OpenCl:
        if self.device and self.platform_version is None:
            raise ValueError("platform_version is missing")
        return self


class _Cpu(_Answer):
    model: Text | None = None


class _Probe(_Answer):
    abi: Text
    cpu: _Cpu
    opencl: _OpenCl


class _Used(_Answer):
    match: Text
    reason: Text


class _Load(_Answer):
    init_ms: Duration
    memory: Annotated[dict[Text, Count], Field(max_length=100)] = {}
    tuned: _Used | None = None
    kernels: _Used | None = None


class _Step(_Answer):
    start_ns: Duration
    first_ns: Duration
    ns: Durations


class _Run(_Answer):
    first_ms: Duration | None = None
    wall_ns: Durations
    steps: Annotated[list[_Step], Field(max_length=MAX_ITEMS)] = []


class _Trial(_Answer):
    build_ms: Duration
    ns: Durations
    max_abs_error: float | None = None
    max_abs_expected: float | None = None
    nan_count: Count = 0
    max_work_group_size: Count
    preferred_multiple: Count


ANSWERS: Mapping[str, type[_Answer]] = {"probe": _Probe, "load": _Load, "run": _Run, "trial": _Trial}


def problem(command: str, answer: Mapping[str, Any]) -> str:
    """What is wrong with an answer, in a few words that are ours; empty where nothing is."""
    try:
        ANSWERS.get(command, _Answer).model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part != "[key]")
        return f"{where[:100]}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return ""
