"""Finds the kernels that a GPU's driver does not build, so that plans are made of others.

Compilers of phones run out of registers, or crash, on one variant of a kernel and build the next. What was found is
kept for the unit and its driver (`build/units/<name>/kernels.json`), and lowering passes over it (`Target.refused`).
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from farm.jobs.fleet import tuned_entries
from farm.jobs.fleet.unit import OpenUnit
from runtime.errors import DeviceError, JobError, ProcessEndedError, ProcessKilledError, UnsupportedError
from runtime.kernels.spec import Kernel
from runtime.plan.artifacts import TunedEntry
from runtime.plan.plan import Plan
from runtime.plan.records import StepKind
from runtime.types import Precision

PASSES = 10  # each finds all that one plan has; the plan after it has others
MOST_VARIANTS = 5  # of a kernel; where so many are refused, all are taken to be
BUILD_DEADLINE_S = 120.0
MAX_FAULT = 200


class Loadable(Protocol):
    """A plan that a unit can load: with all its kernels, or each made when it is first used."""

    @property
    def plan(self) -> Plan:
        """What is loaded."""

    @property
    def tuned(self) -> Path | None:
        """The tuned parameters that it is loaded with."""

    def load(self, lazy: bool = False) -> object:
        """Loads it; raises JobError."""


Ready = TypeVar("Ready", bound=Loadable)
Value = TypeVar("Value")


def used_without(opened: OpenUnit, make: Callable[[], Ready], use: Callable[[Ready], Value]) -> Value:
    """Uses a plan; where the GPU's driver does not build its kernels, one that is made anew without these."""
    for _ in range(PASSES):
        ready = _made(opened, make)
        try:
            return use(ready)
        except JobError as error:
            if not is_refusal(error, opened) or not learn(opened, ready):
                raise
    return use(_made(opened, make))


def _made(opened: OpenUnit, make: Callable[[], Ready]) -> Ready:
    """The plan; where none is left, its error tells what the driver says of the kernel that is missing."""
    try:
        return make()
    except UnsupportedError as error:
        words = (said for name, said in opened.planner.refused.items() if name.split()[0] == error.kernel)
        text = "; what was seen: ".join([str(error), *itertools.islice(words, 1)])
        raise UnsupportedError(text, error.kernel) from None


def is_refusal(error: JobError, opened: OpenUnit) -> bool:
    """Whether the driver may have failed on a program: it said so, or farmrt ended and the unit is still there."""
    if isinstance(error, DeviceError):
        return error.kind == "build_failed"
    return isinstance(error, ProcessEndedError) and not isinstance(error, ProcessKilledError) and bool(opened.answers())


def learn(opened: OpenUnit, ready: Loadable) -> bool:
    """Builds each program of a plan alone, and keeps those that the driver refuses; False where it refuses none."""
    found: dict[str, str] = {}
    _load(opened, ready)
    known = opened.planner.refused
    for program in _programs(ready):
        fault = _fault(opened, ready, program)
        if fault:
            found[program.name] = fault
            every = {program.kernel.refused_name(each, program.precision) for each in program.kernel.variants}
            if len(every.intersection({*known, *found})) >= MOST_VARIANTS:
                found |= dict.fromkeys(every, fault)
    opened.planner.refuse(found)
    return bool(found)


@dataclasses.dataclass(frozen=True)
class _Program:
    """A program of a plan: a step that launches it, the words of its trial, and how `Target.refused` names it."""

    name: str
    kernel: Kernel
    precision: Precision
    words: Mapping[str, object]


def _programs(ready: Loadable) -> Iterator[_Program]:
    """Each program once, the same kernel, variant and options: those of the plan, then those of tuned launches."""
    plan, seen = ready.plan, set()
    for index, step in enumerate(plan.steps):
        if step.kind != StepKind.OPENCL:
            continue
        precision = plan.target.precision if step.precision is None else step.precision
        own = _Program(step.kernel.refused_name(step.variant, precision), step.kernel, precision, {"step": index})
        tuned = tuned_entries.entries_of(ready.tuned, step.tuning_key)
        for program in (own, *(_tuned_program(own, entry) for entry in tuned)):
            key = (program.name, program.words.get("options", tuple(sorted(step.defines.items()))))
            if program.name and key not in seen:
                seen.add(key)
                yield program


def _tuned_program(own: _Program, entry: TunedEntry) -> _Program:
    sizes = {"global": entry.global_size[: entry.work_dim], "local": entry.local_size[: entry.work_dim]}
    words = {**own.words, "options": entry.options, "block": entry.block, **sizes}
    return dataclasses.replace(own, name=tuned_entries.refused_name(entry), words=words)


def _load(opened: OpenUnit, ready: Loadable) -> None:
    opened.session.revive()
    ready.load(lazy=True)


def _fault(opened: OpenUnit, ready: Loadable, program: _Program) -> str:
    """What the driver says against a program, which is launched once; empty where it builds."""
    try:
        if not opened.session.alive:
            _load(opened, ready)
        opened.session.trial(BUILD_DEADLINE_S, reps=1, **program.words)
    except JobError as error:
        if is_refusal(error, opened):
            return _first_words(str(error))
        if not isinstance(error, DeviceError):
            raise
    return ""


def _first_words(text: str) -> str:
    """The first line of an error, and the first one of the compiler's log that tells of one."""
    first, *log = text.splitlines()
    of_compiler = itertools.islice((line.strip() for line in log if "error" in line.lower()), 1)
    return ": ".join(line[-MAX_FAULT:] for line in (first, *of_compiler))
