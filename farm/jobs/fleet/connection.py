"""A unit whose lease is held: what starts a farmrt there."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm.condition.task_profile import TaskProfile
from farm.config.inventory import Unit
from farm.farmrt.session import Session
from farm.farmrt.unit_file_store import UnitFileStore
from farm.jobs.fleet.progress import UnitProgress
from farm.lease.lease import Lease
from farm.transport import Transport
from farm.transport.interruption import Interruption
from runtime.native.build import build_farmrt

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
