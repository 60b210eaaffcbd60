"""Programs that a tuning has built on a unit: the next plan loads them, which takes milliseconds.

The first start of each model's default plan builds most, and shows how long such a start takes. Trial plans share most
of their programs, since many launches have the same source and options, and some drivers take half a second to build
one and remember none. PoCL remembers them, and compiles each once more to give it away, which takes half as long as
building all.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
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
from runtime.target import remembers_programs

_NAME = "built-programs.bin"


class BuiltPrograms:
    """The file of one unit's programs, as long as that is open; `starts`: of plans from source, by the plan's file."""

    def __init__(self) -> None:
        self._path = Path(mkdtemp(prefix="farm-programs."), _NAME)
        finalize(self, shutil.rmtree, self._path.parent, ignore_errors=True)
        self._known: list[KernelSet] = []
        self.starts: dict[Path, LoadAnswer] = {}

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


def start_from_source(opened: OpenUnit, plan_file: PlanFile, inputs: Mapping[str, Array]) -> LoadAnswer | None:
    """Starts a plan of which no program is given, once on each unit, and keeps what it builds; farmrt's answer.

    None where the driver fails, as it will again where that is told.
    """
    limited, execution, built = plan_file.limit_kernel_time, plan_file.execution, BUILT_PROGRAMS.of(opened)
    if plan_file.path in built.starts:
        return built.starts[plan_file.path]
    try:
        load = opened.load(plan_file.path, limit_kernel_time=limited, execution=execution)
        opened.write_inputs(inputs)
        opened.first_round()
        built.keep(opened, plan_file.plan.target.gpu_family)
    except (DeviceError, DeadlineError, ProcessEndedError):
        opened.session.respawn()
        return None
    return built.starts.setdefault(plan_file.path, load)


BUILT_PROGRAMS = PerUnit(lambda _: BuiltPrograms())
