"""Programs that a tuning has built on a unit: the next plan loads them, which takes milliseconds.

The first start of each model's default plan builds most, and shows how long such a start takes. Trial plans share most
of their programs, since many launches have the same source and options, and some drivers take half a second to build
one and remember none. PoCL remembers them, and compiles each once more to give it away, which takes half as long as
building all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from weakref import finalize

from farm.farmrt.answers import LoadAnswer
from farm.jobs.compare.interleaved import PlanFile
from farm.jobs.fleet.per_unit import PerUnit
from farm.jobs.fleet.unit import OpenUnit
from runtime.errors import DeadlineError, DeviceError, ProcessEndedError
from runtime.graph import Array
from runtime.plan.artifacts import KernelSet, decode_kernels, encode_kernels, merge_kernels
from runtime.target import Target, remembers_programs

_NAME = "built-programs.bin"


@dataclasses.dataclass(frozen=True)
class Start:
    """The first start of a plan: farmrt's answer, None where the driver fails, and the device time of all its steps."""

    load: LoadAnswer | None = None
    seconds: float = 0.0


class BuiltPrograms:
    """The file of one unit's programs, as long as that is open; `starts`: of plans from source, by the plan's file."""

    def __init__(self) -> None:
        self._path = Path(mkdtemp(prefix="farm-programs."), _NAME)
        finalize(self, shutil.rmtree, self._path.parent, ignore_errors=True)
        self._known: list[KernelSet] = []
        self.starts: dict[Path, Start] = {}

    @property
    def file(self) -> Path | None:
        """The compiled-kernels file that the next plan is loaded with; None as long as none was built."""
        return self._path if self._known else None

    def keep(self, opened: OpenUnit, gpu_family: str, trials: bool = False) -> None:
        """Adds the programs of the loaded plan, which has run once, with `trials` those that were tried too.

        A driver that gives none away builds them again.
        """
        if remembers_programs(gpu_family):
            return
        new = self._path.with_name("new.bin")
        try:
            opened.save_kernels(new, trials)
        except DeviceError:
            return
        self._known, _ = merge_kernels([*self._known, *decode_kernels(new.read_bytes(), _NAME)])
        self._path.write_bytes(encode_kernels(self._known))

    def forget(self) -> None:
        """Drops everything: the driver fails with what is there."""
        self._known = []


def start_from_source(
    opened: OpenUnit, plans: Sequence[tuple[PlanFile, Mapping[str, Array]]], clock: Callable[[], float] = time.monotonic
) -> list[Start]:
    """Starts plans, each with its inputs, of which no program is given, once on each unit, and keeps what they build.

    Two at a time where the driver keeps programs on disk and has cores for it: what one builds the other finds there.
    A start that fails is made again by the next call.
    """
    built = BUILT_PROGRAMS.of(opened)
    waiting = {file.path: (file, inputs) for file, inputs in plans if file.path not in built.starts}
    made: dict[Path, Start] = {}
    with contextlib.ExitStack() as stack:
        units = [opened]
        if len(waiting) > 1 and _builds_beside(plans[0][0].plan.target):
            units.append(stack.enter_context(opened.twin()))
        following = iter(waiting.values())
        active = [_one_by_one(each, following, built, made, clock, len(units)) for each in units]
        while active:
            active = [each for each in active if next(each, True) is None]
    built.starts |= {path: start for path, start in made.items() if start.load}
    return [built.starts.get(file.path) or made[file.path] for file, _ in plans]


def _builds_beside(target: Target) -> bool:
    return remembers_programs(target.gpu_family) and target.compute_units > 1


def _one_by_one(
    own: OpenUnit,
    waiting: Iterator[tuple[PlanFile, Mapping[str, Array]]],
    built: BuiltPrograms,
    made: dict[Path, Start],
    clock: Callable[[], float],
    units: int,
) -> Iterator[None]:
    """Makes starts that wait, as one of so many `units` that do; yields before it waits for its own."""
    for plan_file, inputs in waiting:
        load, begin_s = None, clock()
        try:
            load = yield from _start(own, plan_file, inputs, units > 1)
            built.keep(own, plan_file.plan.target.gpu_family)
        except (DeviceError, DeadlineError, ProcessEndedError):
            own.session.respawn()
        made[plan_file.path] = Start(load, (clock() - begin_s) / units)


def _start(
    own: OpenUnit, plan_file: PlanFile, inputs: Mapping[str, Array], gives_away: bool
) -> Generator[None, None, LoadAnswer]:
    """`gives_away`: what the driver compiles to give programs away is compiled too; it finds that on disk later."""
    limited, execution = plan_file.limit_kernel_time, plan_file.execution
    loaded = own.loading(plan_file.path, limit_kernel_time=limited, execution=execution)
    yield
    load = loaded()
    own.write_inputs(inputs)
    ran = own.running_first_round()
    yield
    ran()
    if gives_away:
        with own.removing([name := f"{plan_file.path.name}.kernels"]), contextlib.suppress(DeviceError):
            saved = own.session.sent("save_kernels", file=name, trials="0")
            yield
            saved()
    return load


BUILT_PROGRAMS = PerUnit(lambda _: BuiltPrograms())
