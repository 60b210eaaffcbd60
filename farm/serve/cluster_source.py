"""The units of all hosts of a cluster, and its queue, as a source for the page; outlives scheduler and hosts."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from farm.cluster import connection, hosts
from farm.cluster.address import ClusterAddress
from farm.cluster.hosts import NO_ANSWER, HostLook, Hosts
from farm.cluster.queue import JobReport
from farm.cluster.result_tasks import HostResults, Part, ResultKind, working_folder
from farm.cluster.unit_tasks import SeenUnit
from farm.config.inventory import Unit
from farm.serve.source import Look
from farm.units.health import CheckResult, HealthHistory
from farm.units.survey import UnitReport, UnitState
from runtime.errors import JobError

FORGOTTEN_S = 24 * 3600.0  # a host that has been away for so long is no longer shown
GONE = "is not in the cluster any more; `farm worker` there offers its units again"
# States of a unit that is there; a unit that two hosts list is there on one of them.
THERE = (UnitState.READY, UnitState.BUSY, UnitState.RESERVED, UnitState.QUARANTINED, UnitState.FAILING)


@dataclasses.dataclass(frozen=True)
class KnownHost:
    """What a host said last, at what time (Unix), and why it says nothing now."""

    units: tuple[SeenUnit, ...]
    time: float
    error: str = ""

    def seen(self, host: str) -> Iterator[SeenUnit]:
        """Its units; those of a host that does not answer are out of reach."""
        for unit in self.units:
            reason = f"host {host}: {self.error}"
            out = dataclasses.replace(unit.report, state=UnitState.UNREACHABLE, reason=reason, holder=None)
            yield SeenUnit(out, unit.health) if self.error else unit


class ClusterSource:
    """Asks the hosts of a cluster; connects when it is first asked, and again whenever the scheduler was away."""

    has_queue = True

    def __init__(self, address: ClusterAddress, certificates: Path | None = None) -> None:
        self._address, self._certificates = address, certificates
        self._connecting = threading.Lock()
        self._hosts: Hosts | None = None
        self._known: dict[str, KnownHost] = {}
        self._seen: dict[str, tuple[str, SeenUnit]] = {}

    def look(self) -> Look:
        """Asks all hosts at once; one that does not answer keeps its units, which are out of reach."""
        with self._asked() as found:
            looks = found.look()
        self._known = known_after(self._known, looks, time.time())
        self._seen = merged(self._known)
        return Look(
            [unit.report for _, unit in self._seen.values()],
            {host: known.error for host, known in self._known.items()},
            {name: host for name, (host, _) in self._seen.items()},
        )

    def jobs(self) -> Sequence[JobReport]:
        """The queue of the scheduler."""
        with self._asked() as found:
            return found.jobs()

    def cancel_job(self, job: str, person: str) -> None:
        """`farm jobs cancel` in a person's name."""
        with self._asked() as found:
            found.cancel(job, person)

    def results(self) -> dict[str, HostResults]:
        """What all hosts have written, but for the one that works in this very folder; hosts that left are named."""
        with self._asked() as found:
            told = found.results()
        gone = {host: HostResults(error=GONE) for host in self._known.keys() - told.keys()}
        return {host: each for host, each in (told | gone).items() if each.folder != working_folder()}

    def content(self, host: str, kind: ResultKind, path: str) -> Iterator[bytes] | None:
        """A file as it was when it was begun with: one that is replaced meanwhile ends early, with a JobError."""
        first = self._part(host, kind, path, 0)
        return None if first is None else self._pieces(host, kind, path, first)

    def _pieces(self, host: str, kind: ResultKind, path: str, first: Part) -> Iterator[bytes]:
        version, piece = first
        offset = 0
        while piece:
            yield piece
            offset += len(piece)
            following = self._part(host, kind, path, offset)
            if following is None or following[0] != version:
                raise JobError(f"{host}: {path} is no longer what it was")
            piece = following[1]

    def _part(self, host: str, kind: ResultKind, path: str, offset: int) -> Part | None:
        with self._asked() as found:
            if host not in found.names():
                raise JobError(f"host {host} {GONE}")
            return found.read_part(host, kind, path, offset)

    def health(self, unit: Unit) -> HealthHistory:
        """What its host said of a unit at the last look."""
        seen = self._seen.get(unit.name)
        return seen[1].health if seen else HealthHistory()

    def reserve(self, name: str, duration_s: float, reason: str, person: str, force: bool) -> str:
        """`farm reserve` on the unit's host."""
        with self._asked() as found:
            return found.reserve(name, duration_s, reason, person, force, self._host_of(name))

    def release(self, name: str, person: str, force: bool) -> str:
        """`farm release` on the unit's host."""
        with self._asked() as found:
            return found.release(name, person, force, self._host_of(name))

    def check(self, name: str) -> Sequence[CheckResult]:
        """`farm devices check` on the unit's host."""
        with self._asked() as found:
            return found.check(name, self._host_of(name))[0]

    def _host_of(self, name: str) -> str:
        """The unit's host; raises JobError where it is known not to answer."""
        host = self._seen[name][0] if name in self._seen else ""
        known = self._known.get(host)
        if known and known.error:
            raise JobError(f"{name}: its host {host} {known.error}")
        return host

    @contextlib.contextmanager
    def _asked(self) -> Iterator[Hosts]:
        """The connection; is given up where the scheduler does not answer, which is a JobError."""
        found = self._connected()
        try:
            yield found
        except NO_ANSWER as error:
            raise JobError(connection.unanswered(self._address, error)) from None

    def _connected(self) -> Hosts:
        with self._connecting:
            if self._hosts and not self._hosts.is_open:
                self._hosts.close()
                self._hosts = None
            if self._hosts is None:
                self._hosts = hosts.join(self._address, self._certificates)
            return self._hosts


def known_after(known: dict[str, KnownHost], looks: Iterable[HostLook], now: float) -> dict[str, KnownHost]:
    """What is known of hosts after a look, by name; one that does not answer keeps its units for a day."""
    told = {look.host: look for look in looks}
    after = {
        host: dataclasses.replace(before, error=told[host].error if host in told else GONE)
        for host, before in known.items()
        if now - before.time < FORGOTTEN_S
    }
    fresh = {host: KnownHost(look.units, now, look.error) for host, look in told.items() if not look.error}
    silent = {host: KnownHost((), now, look.error) for host, look in told.items() if look.error}
    return dict(sorted({**silent, **after, **fresh}.items()))


def merged(known: dict[str, KnownHost]) -> dict[str, tuple[str, SeenUnit]]:
    """Unit -> its host and what is seen of it, host by host; a unit that several hosts list, where it is there."""
    found: dict[str, tuple[str, SeenUnit]] = {}
    for host, each in known.items():
        for unit in each.seen(host):
            name = unit.report.unit.name
            if name not in found or (_is_there(unit.report) and not _is_there(found[name][1].report)):
                found[name] = (host, unit)
    return dict(sorted(found.items(), key=lambda item: (item[1][0], item[0])))


def _is_there(report: UnitReport) -> bool:
    return report.state in THERE
