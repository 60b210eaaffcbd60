"""Where the page takes units from and how it changes them: this host alone, or all hosts of a cluster."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from farm.cluster.queue import JobReport
from farm.cluster.result_tasks import HostResults, ResultKind
from farm.config.inventory import Unit
from farm.jobs.fleet.opencl_library import check_unit
from farm.lease import lease, reservation
from farm.transport import connect
from farm.units import health, lookup, survey
from farm.units.health import CheckResult, HealthHistory
from farm.units.selection import Selection
from farm.units.survey import UnitReport
from runtime.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Look:
    """What units there are.

    Attributes:
        hosts: a host of the cluster -> why it does not answer, empty where it does; there is none without a cluster.
        host_of: a unit's name -> the host that has it.
    """

    reports: Sequence[UnitReport]
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    host_of: Mapping[str, str] = dataclasses.field(default_factory=dict)


class ResultSource(Protocol):
    """What other hosts have written; every method may take seconds, and raises a FarmError where it fails."""

    def results(self) -> Mapping[str, HostResults]:
        """Host -> its artifacts and reports, or why they are not known."""

    def content(self, host: str, kind: ResultKind, path: str) -> Iterator[bytes] | None:
        """The content of a host's file, piece by piece; None where it has no such file."""


class UnitSource(Protocol):
    """All units that the page shows; every method may take seconds, and raises a FarmError where it fails."""

    @property
    def has_queue(self) -> bool:
        """Whether jobs wait for units: those of a cluster do."""

    def look(self) -> Look:
        """Asks all units for their state."""

    def jobs(self) -> Sequence[JobReport]:
        """The jobs that run and wait, the oldest first."""

    def cancel_job(self, job: str, person: str) -> None:
        """Ends a job in a person's name; raises ConfigError where there is no such job."""

    def health(self, unit: Unit) -> HealthHistory:
        """How the last jobs on a unit ended, and its quarantine."""

    def reserve(self, name: str, duration_s: float, reason: str, person: str, force: bool) -> str:
        """Takes a unit off for a person; returns a line that says so."""

    def release(self, name: str, person: str, force: bool) -> str:
        """Ends a person's reservation, or by force any lease; returns a line that says so."""

    def check(self, name: str) -> Sequence[CheckResult]:
        """Checks a unit, which begins or ends its quarantine."""


class LocalSource:
    """The units of this host: those of devices.yml in the working folder, and phones that are plugged in."""

    has_queue = False

    def look(self) -> Look:
        """Asks all units at the same time; those on which a job runs only who holds them."""
        return Look(survey.ask_all(lookup.present(), lambda entry: survey.watch(entry, connect)))

    def jobs(self) -> Sequence[JobReport]:
        """None: what runs here waits for leases, one by one."""
        return ()

    def cancel_job(self, job: str, person: str) -> None:
        """Raises ConfigError: there is none."""
        raise ConfigError("this host has no queue; `farm serve --cluster URL` shows one")

    def health(self, unit: Unit) -> HealthHistory:
        """What this host remembers of a unit."""
        return health.HealthRecords().read(unit)

    def reserve(self, name: str, duration_s: float, reason: str, person: str, force: bool) -> str:
        """`farm reserve` in a person's name."""
        unit = lookup.present_unit(name)
        with contextlib.closing(connect(unit)) as transport:
            return reservation.reserve(unit, transport, reason, duration_s, person, force)

    def release(self, name: str, person: str, force: bool) -> str:
        """`farm release` in a person's name."""
        unit = lookup.present_unit(name)
        with contextlib.closing(connect(unit)) as transport:
            return lease.release(unit, transport, force, person)

    def check(self, name: str) -> Sequence[CheckResult]:
        """`farm devices check`."""
        (unit,) = lookup.chosen_units(Selection(devices=(name,)))
        found = check_unit(unit)
        health.HealthRecords().record_check(unit, found)
        return found
